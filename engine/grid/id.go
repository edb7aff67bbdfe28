package grid

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"sync"
	"unsafe"
)

// IDLength is the length of a case ID: 128 bits in hexadecimal.
const IDLength = 32

// ID returns the ID of case i: the first 128 bits of the SHA-256 of
//
//	op "\n" name "=" value "\n" ...
//
// with the parameters sorted by name. Values are written as in JSON: quoted strings, integers in
// decimal, other numbers as the shortest text of the nearest float64 (1.0 is 1), true, false, null.
// The ID depends on nothing else: not on the grid's name, other cases, the order of axes, or names
// that are not columns.
func (c *Cases) ID(i int) string {
	return unsafe.String(&c.ids()[i*IDLength], IDLength)
}

func (c *Cases) makeIDs() []byte {
	all := make([]byte, c.n*IDLength)
	chunk := max(1<<13, (c.n+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for from := 0; from < c.n; from += chunk {
		wg.Go(func() {
			write := c.idWriter(nil)
			for i := from; i < min(from+chunk, c.n); i++ {
				write(all[i*IDLength:i*IDLength:(i+1)*IDLength], i, 0)
			}
		})
	}

	wg.Wait()
	return all
}

// Digest returns the SHA-256, in hexadecimal, of the case IDs in order, each followed by the digest
// of its sweep points. Grids with equal digests, Op, columns and constants pass the same data to
// the next stages.
func (c *Cases) Digest() string { return c.digest() }

func (c *Cases) makeDigest() string {
	h := sha256.New()
	buf := make([]byte, 0, 1<<16)
	for i := range c.n {
		buf = append(buf, c.ID(i)...)
		buf = append(buf, c.Sweep(i).Digest...)
		buf = append(buf, '\n')
		if len(buf) > 1<<15 || i == c.n-1 {
			h.Write(buf)
			buf = buf[:0]
		}
	}

	return hex.EncodeToString(h.Sum(nil))
}
