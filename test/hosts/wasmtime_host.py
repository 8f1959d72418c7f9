"""A second host for session.wasm: wasmtime, with a bucket over SQLite that is written here.

    wasmtime_host.py COMPONENT COMPILED DATABASE

Takes one JSON command a line, answers one JSON line each: {"ok": …} or {"error": {"tag", "val"}}. COMPILED is where the
compiled component is kept; it is made anew for another version of the engine or of the component.
"""

import base64
import hashlib
import json
import os
import random
import sqlite3
import sys
from importlib.metadata import version

import wasmtime
from wasmtime.component import Component, Linker, Record, ResourceAny, ResourceHost, ResourceType, Variant

KEYVALUE = "0.2.0-draft2"
SESSIONS = "mcp:session/sessions@0.1.0"
BUCKET, CAS, STREAM, INPUT = 1, 2, 3, 4


class Database:
    """The table of this project's SQLite buckets, format 1: key, version, value."""

    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None, timeout=5)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("BEGIN IMMEDIATE")
        if self.db.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
            self.db.execute(
                "CREATE TABLE entries (key BLOB PRIMARY KEY NOT NULL, version INTEGER NOT NULL, value BLOB NOT NULL)"
                " WITHOUT ROWID"
            )
            self.db.execute("PRAGMA application_id = %d" % 0x6D637073)
            self.db.execute("PRAGMA user_version = 1")
        self.db.execute("COMMIT")

    def entry(self, key):
        row = self.db.execute("SELECT value, version FROM entries WHERE key = ?", (key.encode(),)).fetchone()
        return (None, None) if row is None else (bytes(row[0]), row[1])

    def set(self, key, value):
        self.db.execute(
            "INSERT INTO entries VALUES (?, ?, ?)"
            " ON CONFLICT DO UPDATE SET version = excluded.version, value = excluded.value",
            (key.encode(), fresh(), value),
        )

    def delete(self, key):
        self.db.execute("DELETE FROM entries WHERE key = ?", (key.encode(),))

    def swap(self, key, expected, value):
        if expected is None:
            done = self.db.execute(
                "INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (key.encode(), fresh(), value)
            )
        else:
            done = self.db.execute(
                "UPDATE entries SET version = ?, value = ? WHERE key = ? AND version = ?",
                (fresh(), value, key.encode(), expected),
            )
        return done.rowcount == 1


def unused(*_):
    """What the component calls only of a stream that takes nothing for now."""
    raise NotImplementedError


def fresh():
    return random.SystemRandom().getrandbits(53)


class Host:
    def __init__(self, component_path, compiled_path, database_path):
        self.database = Database(database_path)
        self.engine = wasmtime.Engine()
        self.component = self.compile(component_path, compiled_path)
        self.store = wasmtime.Store(self.engine)
        wasi = wasmtime.WasiConfig()
        self.store.set_wasi(wasi)
        self.linker = Linker(self.engine)
        self.cas = {}
        self.made = 0
        self.dropped = []
        self.written = b""
        self.stream_is_closed = False
        self.store_fails = None
        self.provide()
        self.instance = self.linker.instantiate(self.store, self.component)
        self.interface = self.instance.get_export_index(self.store, SESSIONS)

    def compile(self, path, compiled):
        with open(path, "rb") as file:
            source = file.read()
        name = hashlib.sha256(source).hexdigest()[:16] + "-" + version("wasmtime")
        at = os.path.join(compiled, name + ".cwasm")
        if not os.path.exists(at):
            os.makedirs(compiled, exist_ok=True)
            part = at + ".%d" % os.getpid()
            with open(part, "wb") as file:
                file.write(Component(self.engine, source).serialize())
            os.replace(part, at)
        return Component.deserialize_file(self.engine, at)

    def version_of(self, interface):
        for name in self.component.type.imports(self.engine):
            if name.startswith(interface + "@"):
                return name
        raise LookupError(interface)

    def provide(self):
        self.linker.add_wasip2()
        self.linker.allow_shadowing = True
        with self.linker.root() as root:
            self.provide_keyvalue(root)
            self.provide_streams(root)

    def provide_keyvalue(self, root):
        with root.add_instance("wasi:keyvalue/store@" + KEYVALUE) as store:
            store.add_resource("bucket", ResourceType.host(BUCKET), lambda _, rep: self.dropped.append(rep))
            store.add_func("[method]bucket.get", self.on_bucket(lambda key: self.database.entry(key)[0]))
            store.add_func("[method]bucket.set", self.on_bucket(lambda key, value: self.database.set(key, value)))
            store.add_func("[method]bucket.delete", self.on_bucket(lambda key: self.database.delete(key)))
        with root.add_instance("wasi:keyvalue/atomics@" + KEYVALUE) as atomics:
            atomics.add_resource("cas", ResourceType.host(CAS), lambda _, rep: self.cas.pop(rep, None))
            atomics.add_func("[static]cas.new", self.on_bucket(self.new_cas))
            atomics.add_func("[method]cas.current", self.current)
            atomics.add_func("swap", self.swap)
        with root.add_instance("wasi:keyvalue/batch@" + KEYVALUE) as batch:
            batch.add_func("delete-many", self.on_bucket(self.delete_many))

    def on_bucket(self, run):
        """A function that borrows the bucket. Whatever fails becomes the declared error, so that the guest lives on."""

        def call(store, bucket, *args):
            bucket.drop(store)
            try:
                if self.store_fails is not None:
                    raise sqlite3.OperationalError(self.store_fails)
                return run(*args)
            except sqlite3.Error as error:
                return Variant("other", str(error))

        return call

    def delete_many(self, keys):
        for key in keys:
            self.database.delete(key)

    def new_cas(self, key):
        self.made += 1
        value, version = self.database.entry(key)
        self.cas[self.made] = (key, version, value)
        return ResourceHost.own(self.made, CAS)

    def current(self, store, cas):
        return self.cas[cas.to_host(store).rep][2]

    def swap(self, store, cas, value):
        rep = cas.to_host(store).rep
        key, version, _ = self.cas.pop(rep)
        try:
            return None if self.database.swap(key, version, value) else self.new_cas(key)
        except sqlite3.Error as error:
            return Variant("other", str(error))

    def provide_streams(self, root):
        with root.add_instance(self.version_of("wasi:io/streams")) as streams:
            streams.add_resource("input-stream", ResourceType.host(INPUT), lambda *_: None)
            streams.add_resource("output-stream", ResourceType.host(STREAM), lambda *_: None)
            streams.add_func("[method]output-stream.subscribe", unused)
            streams.add_func("[method]output-stream.check-write", self.check_write)
            streams.add_func("[method]output-stream.write", self.write)
            streams.add_func("[method]output-stream.blocking-flush", self.flush)

    def check_write(self, store, stream):
        stream.drop(store)
        return None if self.stream_is_closed else 1 << 20

    def write(self, store, stream, contents):
        stream.drop(store)
        self.written += contents
        return Variant("ok")

    def flush(self, store, stream):
        stream.drop(store)
        return Variant("ok")

    def bucket(self):
        self.made += 1
        return ResourceHost.own(self.made, BUCKET)

    def call(self, name, *args):
        index = self.instance.get_export_index(self.store, name, self.interface)
        func = self.instance.get_func(self.store, index)
        result = func(self.store, *args)
        func.post_return(self.store)
        return result


class Failure(Exception):
    pass


def checked(result):
    if isinstance(result, Variant):
        raise Failure(result)
    return result


def plain(value):
    """A result as JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Variant):
        return {"tag": value.tag, "val": plain(value.payload)}
    if isinstance(value, Record):
        return {name: plain(member) for name, member in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if isinstance(value, (ResourceAny, ResourceHost)):
        return "resource"
    return value


def record(**members):
    made = Record()
    for name, member in members.items():
        setattr(made, name.replace("_", "-"), member)
    return made


def form():
    number = record(minimum=1, maximum=40, default=None)
    field = record(name="people", title="People", description=None, required=True, kind=Variant("integer", number))
    return Variant("form", record(message="How many people?", fields=[field]))


class Commands:
    def __init__(self, host):
        self.host = host
        self.session = None
        self.future = None

    def initialize(self):
        self.session = checked(self.host.call("[static]session.initialize", self.host.bucket()))
        return self.id()

    def open(self, id):
        self.session = checked(self.host.call("[static]session.open", self.host.bucket(), id))
        return self.id()

    def id(self):
        return self.method("id")

    def method(self, name, *args):
        return checked(self.host.call("[method]session." + name, self.session, *args))

    def get(self, key):
        return self.method("get", key)

    def set(self, key, value):
        return self.method("set", key, base64.b64decode(value))

    def remove(self, key):
        return self.method("remove", key)

    def swap(self, key, expected, value):
        given = [None if one is None else base64.b64decode(one) for one in (expected, value)]
        return self.method("swap", key, *given)

    def keys(self):
        return self.method("keys")

    def terminate(self, reason=None):
        return self.method("terminate", reason)

    def is_terminated(self):
        return self.method("is-terminated")

    def elicit(self, closed=False):
        self.host.written = b""
        self.host.stream_is_closed = closed
        stream = ResourceHost.own(self.host.made + 1_000_000, STREAM).to_any(self.host.store)
        self.future = self.method("elicit", stream, form())
        return self.host.written.decode()

    def result(self):
        return self.host.call("[method]future-elicit-result.elicit-result", self.future)

    def close(self):
        session, self.session = self.session, None
        return self.host.call("[static]session.close", session)

    def delete(self):
        session, self.session = self.session, None
        return self.host.call("[static]session.delete", session)

    def fail(self, text=None):
        self.host.store_fails = text


def main():
    host = Host(*sys.argv[1:4])
    commands = Commands(host)
    for line in sys.stdin:
        name, *args = json.loads(line)
        try:
            answer = {"ok": plain(getattr(commands, name)(*args))}
        except Failure as failure:
            answer = {"error": plain(failure.args[0])}
        print(json.dumps(answer), flush=True)


main()
