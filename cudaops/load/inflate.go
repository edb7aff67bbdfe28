package load

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// errCutInflate is a compressed body that ends too early.
var errCutInflate = errors.New("the compressed answer ends before its end")

// inflater decompresses a body as its parts come: what a part completes is given
// out before the next one is taken, so the time of a message stays that of the
// read that completed it. Nobody asks for compressed answers here; proxies send
// them all the same.
type inflater struct {
	next func() ([]byte, bool)
	stop func()
	in   []byte // what was not read of the newest part
	last bool   // no further part comes
	err  error
}

// newInflater is nil for bodies that are sent as they are.
func newInflater(encoding string) (*inflater, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return nil, nil
	case "gzip", "x-gzip":
	default:
		return nil, fmt.Errorf("the answer is encoded as %.40q, which was not asked for; have the server or the proxy before it send it as it is, or as gzip", encoding)
	}
	d := &inflater{}
	d.next, d.stop = iter.Pull(d.output)
	return d, nil
}

// output yields decompressed bytes, and nil when it needs another part.
func (d *inflater) output(yield func([]byte) bool) {
	z, err := gzip.NewReader(partReader{d, yield})
	if err == nil {
		z.Multistream(false)
		b := make([]byte, 32<<10)
		for err == nil {
			var n int
			n, err = z.Read(b)
			if n > 0 && !yield(b[:n]) {
				return
			}
		}
	}
	switch {
	case errors.Is(err, io.EOF):
	case errors.Is(err, io.ErrUnexpectedEOF):
		d.err = errCutInflate
	default:
		d.err = fmt.Errorf("the answer says that it is gzip: %w", err)
	}
}

// partReader reads the parts, and asks for another where there is none.
type partReader struct {
	d     *inflater
	yield func([]byte) bool
}

func (r partReader) Read(p []byte) (int, error) {
	for len(r.d.in) == 0 {
		if r.d.last || !r.yield(nil) {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n := copy(p, r.d.in)
	r.d.in = r.d.in[n:]
	return n, nil
}

// feed decompresses a part.
func (d *inflater) feed(part []byte, emit func([]byte) error) error {
	d.in = part
	for {
		out, more := d.next()
		switch {
		case !more:
			return d.err // what stands behind the end is nobody's
		case out == nil:
			return nil
		}
		if err := emit(out); err != nil {
			return err
		}
	}
}

// end says that the body is complete, and frees what the inflater holds.
func (d *inflater) end(emit func([]byte) error) error {
	d.last = true
	err := d.feed(nil, emit)
	d.stop()
	return err
}
