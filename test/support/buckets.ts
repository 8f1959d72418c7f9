import { BucketError } from '../../host/bucket/bucket.ts';
import type { Entry } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';

/** A bucket that can be made to fail, and that counts how often it is asked. */
export class SwitchedBucket extends MemoryBucket {
  down = false;
  asked = 0;

  override get(key: string): Entry | undefined {
    this.#ask();
    return super.get(key);
  }

  override exists(key: string): boolean {
    this.#ask();
    return super.exists(key);
  }

  override swap(key: string, expected: string | undefined, value: Uint8Array): string | undefined {
    this.#ask();
    return super.swap(key, expected, value);
  }

  #ask(): void {
    this.asked += 1;
    if (this.down) throw new BucketError('unavailable', 'cannot reach the store: it was switched off');
  }
}
