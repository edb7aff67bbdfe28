package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"aicplan/sink/base/fileutil"
)

// A segment is segmentMagic followed by frames:
//
//	4 bytes  frameSync
//	4 bytes  length of the body, little endian
//	4 bytes  CRC-32C of the length and the body
//	body     kind (1 byte), length of the id (uvarint), id, payload
//
// The sync bytes let a reader find the next frame after a damaged one.
const (
	segmentMagic = "aicpjnl1"
	frameSync    = "\xacJf\x1e"
	frameHeader  = 12
	maxBody      = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind is the type of a journal entry.
type Kind byte

// The kinds of entries.
const (
	Measured Kind = 'm'
	Failed   Kind = 'f'
	// Withdrawn invalidates all earlier entries of the case. The payload is the token of the epoch; see
	// Journal.Withdraw.
	Withdrawn Kind = 'w'
)

// Entry is one case in the journal.
type Entry struct {
	ID   string
	Kind Kind
	// Payload is opaque to the journal.
	Payload []byte
}

func appendFrame(b []byte, e Entry) []byte {
	start := len(b)
	b = append(b, frameSync...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, byte(e.Kind))
	b = binary.AppendUvarint(b, uint64(len(e.ID)))
	b = append(b, e.ID...)
	b = append(b, e.Payload...)
	binary.LittleEndian.PutUint32(b[start+4:], uint32(len(b)-start-frameHeader))
	binary.LittleEndian.PutUint32(b[start+8:], frameSum(b[start:]))

	return b
}

func frameSum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[4:8], castagnoli), castagnoli, frame[frameHeader:])
}

// parseFrame parses the frame at the start of b. The payload aliases b.
func parseFrame(b []byte) (e Entry, size int, ok bool) {
	size = frameSize(b)
	if size < 0 || size > len(b) || frameSum(b[:size]) != binary.LittleEndian.Uint32(b[8:]) {
		return Entry{}, 0, false
	}
	body := b[frameHeader:size]
	n, w := binary.Uvarint(body[1:])
	if w <= 0 || n > uint64(len(body)-1-w) {
		return Entry{}, 0, false
	}

	rest := body[1+w:]
	return Entry{ID: string(rest[:n]), Kind: Kind(body[0]), Payload: rest[n:]}, size, true
}

// frameSize returns the size in bytes of the frame at the start of b, header included. It returns -1 if
// b does not start with a valid header.
func frameSize(b []byte) int {
	if len(b) < frameHeader || string(b[:4]) != frameSync {
		return -1
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n < 2 || n > maxBody {
		return -1
	}

	return frameHeader + int(n)
}

// Damage is a byte range of a segment without readable frames.
type Damage struct {
	Path           string
	Offset, Length int64
	// Tail is true if no readable frame follows. A process that is killed during a write leaves such a
	// range; its bytes were never acknowledged.
	Tail bool
}

func (d Damage) String() string {
	if d.Tail {
		return fmt.Sprintf("%s: the last %d bytes are an unfinished write", d.Path, d.Length)
	}
	return fmt.Sprintf("%s: %d bytes from offset %d on are damaged", d.Path, d.Length, d.Offset)
}

// scanSegment calls visit for every readable frame of a segment after an offset, in order, with its offset and
// size in bytes. The entry's payload is valid only during the call. An error of visit ends the scan.
func scanSegment(r io.ReadSeeker, path string, from int64,
	visit func(e Entry, off int64, size int) error) ([]Damage, error) {
	w := &window{r: r, path: path}
	if err := w.seek(from); err != nil {
		return nil, err
	}
	if from == 0 {
		head, err := w.peek(len(segmentMagic))
		if err != nil {
			return nil, err
		}
		if string(head) == segmentMagic {
			w.skip(len(segmentMagic))
		}
	}

	var damage []Damage
	bad := int64(-1) // start of the current damage, or -1
	for {
		b, err := w.peek(frameHeader)
		if err != nil {
			return damage, err
		}
		if len(b) == 0 {
			break
		}

		if size := frameSize(b); size > 0 {
			if b, err = w.peek(size); err != nil {
				return damage, err
			}
			if e, size, ok := parseFrame(b); ok {
				if bad >= 0 {
					damage = append(damage, Damage{Path: path, Offset: bad, Length: w.off - bad})
					bad = -1
				}
				if err := visit(e, w.off, size); err != nil {
					return damage, err
				}
				w.skip(size)
				continue
			}
		}

		if bad < 0 {
			bad = w.off
		}
		if err := w.seekSync(); err != nil {
			return damage, err
		}
	}

	if bad >= 0 {
		damage = append(damage, Damage{Path: path, Offset: bad, Length: w.off - bad, Tail: true})
	}

	return damage, nil
}

// window buffers a reader so that a whole frame can be inspected before it is consumed.
type window struct {
	r    io.ReadSeeker
	path string
	buf  []byte // not consumed yet
	off  int64  // offset of buf[0] in the file
	eof  bool
	mem  []byte
}

// peek returns the next n bytes without consuming them. It returns fewer only at the end of the file.
func (w *window) peek(n int) ([]byte, error) {
	for len(w.buf) < n && !w.eof {
		want := max(n, 1<<20)
		if cap(w.mem) < want {
			w.mem = make([]byte, want)
		}
		w.mem = w.mem[:cap(w.mem)]
		have := copy(w.mem, w.buf)
		got, err := io.ReadFull(w.r, w.mem[have:])
		w.buf = w.mem[:have+got]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			w.eof = true
		} else if err != nil {
			return nil, fileutil.Explain("read", w.path, err)
		}
	}

	return w.buf[:min(n, len(w.buf))], nil
}

// seek moves to an offset. It reads nothing if the buffer reaches there.
func (w *window) seek(to int64) error {
	if skip := to - w.off; skip >= 0 && skip <= int64(len(w.buf)) {
		w.skip(int(skip))
		return nil
	}
	w.buf, w.off, w.eof = nil, to, false
	if _, err := w.r.Seek(to, io.SeekStart); err != nil {
		return fileutil.Explain("read", w.path, err)
	}
	return nil
}

func (w *window) skip(n int) {
	w.buf = w.buf[n:]
	w.off += int64(n)
}

// seekSync skips at least one byte, up to the next sync bytes or the end of the file.
func (w *window) seekSync() error {
	w.skip(1)
	for {
		b, err := w.peek(1 << 16)
		if err != nil {
			return err
		}
		if i := bytes.Index(b, []byte(frameSync)); i >= 0 {
			w.skip(i)
			return nil
		}

		if len(b) < 1<<16 {
			w.skip(len(b))
			return nil
		}
		w.skip(len(b) - len(frameSync) + 1)
	}
}
