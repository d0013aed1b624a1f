package handlers

import "testing"

func TestBufferClassesHoldWhatIsAskedAndLittleMore(t *testing.T) {
	last := -1
	for n := 1; n <= 1<<maxBufferBits; n += 1 + n/7 {
		class, size := bufferClass(n)
		if size < n || n > 1<<minBufferBits && size > n+n/4+1 {
			t.Fatalf("%d bytes: a buffer of %d", n, size)
		}
		if again, same := bufferClass(size); again != class || same != size {
			t.Fatalf("a buffer of %d is lent from class %d and goes back to %d (%d)", size, class, again, same)
		}
		if class < last {
			t.Fatalf("%d bytes: class %d after %d", n, class, last)
		}
		last = class
	}
	var p buffers
	if class, size := bufferClass(1 << maxBufferBits); class != len(p.class)-1 || size != 1<<maxBufferBits {
		t.Errorf("largest: class %d of %d, size %d", class, len(p.class), size)
	}
	if class, size := bufferClass(0); class != 0 || size != 1<<minBufferBits {
		t.Errorf("smallest: class %d, size %d", class, size)
	}
}
