package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const segmentSuffix = ".seg"

// Append adds an entry and returns once it is on disk. Concurrent calls share one write and one fsync.
func (j *Journal) Append(e Entry) error { return j.AppendAll([]Entry{e}) }

// AppendAll adds entries in order and returns once all are on disk. If it fails, some of them may have
// been written.
func (j *Journal) AppendAll(entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	// A batch has one result for all its entries. Entries that were split over two batches may have two
	// results: the first error is returned.
	results := make(chan error, len(entries))
	var first error
	for i, e := range entries {
		if first = j.enqueue(e, func(err error) { results <- err }); first != nil {
			entries = entries[:i]
			break
		}
	}

	j.wake()
	for range entries {
		first = cmp.Or(first, <-results)
	}
	return first
}

// AppendFunc adds an entry and returns without waiting for the disk. done is called with nil once the
// entry is on disk, or with the error. It is called from the journal's goroutine, in the order of the
// calls, and must not block or call Append. The payload is copied. If AppendFunc returns an error, done
// is not called.
func (j *Journal) AppendFunc(e Entry, done func(error)) error {
	if err := j.enqueue(e, done); err != nil {
		return err
	}
	j.wake()
	return nil
}

func (j *Journal) enqueue(e Entry, done func(error)) error {
	if len(e.ID)+len(e.Payload)+16 > maxBody {
		return fmt.Errorf("case %s: its %d bytes are more than the journal takes (%d)", e.ID, len(e.Payload), maxBody)
	}

	if err := j.store.ensure(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}

	if !j.started {
		j.started = true
		go j.write()
	}
	b := j.next
	off := len(b.buf)
	b.buf = appendFrame(b.buf, e)
	head := Entry{ID: e.ID, Kind: e.Kind}
	if e.Kind == Withdrawn {
		head.Payload = slices.Clone(e.Payload)
	}

	b.entries = append(b.entries, pending{entry: head, off: off, size: len(b.buf) - off, callback: done})
	return nil
}

func (j *Journal) wake() {
	select {
	case j.kick <- struct{}{}:
	default:
	}
}

// write is the journal's goroutine. It makes one batch after another durable until the journal is
// closed and no batch is left.
func (j *Journal) write() {
	defer close(j.done)
	var seg *segment
	spare := &batch{}

	for range j.kick {
		for {
			j.mu.Lock()
			b := j.next
			if len(b.entries) == 0 {
				closed := j.closed
				j.mu.Unlock()
				if !closed {
					break
				}

				if seg != nil {
					seg.f.Close() // every acknowledged byte is synced already
				}

				return
			}

			j.next = spare
			j.mu.Unlock()

			var err error
			seg, err = j.commit(seg, b)
			for _, p := range b.entries {
				p.callback(err)
			}

			clear(b.entries)
			spare = &batch{buf: b.buf[:0], entries: b.entries[:0]}
			if cap(b.buf) > 1<<20 {
				spare = &batch{}
			}
		}
	}
}

// segment is the file that this journal appends to. No other writer uses it.
type segment struct {
	f    file
	path string
	n    int32 // index in Journal.segments
	size int64 // bytes that are synced
}

// commit writes and syncs a batch, then publishes its entries. After a failed write or fsync the
// content of the file is unknown, so commit truncates the segment to the acknowledged bytes and returns
// a nil segment; the next batch starts a new one.
func (j *Journal) commit(seg *segment, b *batch) (*segment, error) {
	buf := b.buf
	if seg == nil {
		var err error
		if seg, err = j.newSegment(); err != nil {
			return nil, err
		}
		buf = append([]byte(segmentMagic), buf...)
	}

	_, err := seg.f.Write(buf)
	if err == nil {
		err = seg.f.Sync()
	}
	if err == nil && seg.size == 0 {
		err = j.store.files.SyncDir(j.dir)
	}

	if err == nil && seg.f.Gone() {
		err = errors.New(
			"it was removed or replaced while this run appends to it; do not change the state folder during a run",
		)
	}
	if err != nil {
		err = j.store.explain("append to", seg.path, err)
		return nil, errors.Join(err, j.abandon(seg))
	}

	base := seg.size
	if base == 0 {
		base = int64(len(segmentMagic))
	}
	seg.size += int64(len(buf))
	j.mu.Lock()

	for _, p := range b.entries {
		j.publish(p.entry, ref{segment: seg.n, off: base + int64(p.off), size: int32(p.size), kind: p.entry.Kind})
	}

	j.readTo(seg.n, seg.size)
	j.mu.Unlock()
	return seg, nil
}

// abandon truncates a segment to its acknowledged bytes and closes it. Readers skip frames with an
// invalid checksum, so a failure here loses no data.
func (j *Journal) abandon(seg *segment) error {
	var errs []error
	if seg.size > 0 {
		errs = append(errs, seg.f.Truncate(seg.size))
	}
	errs = append(errs, seg.f.Close())
	if seg.size == 0 {
		if err := j.store.files.Remove(seg.path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}

	return errors.Join(errs...)
}

// newSegment creates the next segment. Its number sorts it after the existing ones. The random part of
// its name separates two writers that choose the same number.
func (j *Journal) newSegment() (*segment, error) {
	if err := j.store.ensure(); err != nil {
		return nil, err
	}
	if err := j.store.mkdir(j.dir); err != nil {
		return nil, err
	}

	if err := j.describe(); err != nil {
		return nil, err
	}
	path, err := nextSegment(j.dir, j.store.Label)
	if err != nil {
		return nil, err
	}

	f, err := j.store.files.Create(path)
	if err != nil {
		return nil, j.store.explain("create", path, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.segments = append(j.segments, path)
	j.own[path] = true

	return &segment{f: f, path: path, n: int32(len(j.segments) - 1)}, nil
}

// segmentNumber returns the number in a segment's name. Entries of higher numbers override those of
// lower numbers. It returns 0 if the name has no valid number.
func segmentNumber(path string) int {
	number, _, _ := strings.Cut(filepath.Base(path), "-")
	if n, err := strconv.Atoi(number); err == nil && n > 0 && n < 1<<50 {
		return n
	}
	return 0
}

func nextSegment(dir, label string) (string, error) {
	paths, err := segmentPaths(dir)
	if err != nil {
		return "", err
	}
	last := 0
	for _, p := range paths {
		last = max(last, segmentNumber(p))
	}

	if label != "" {
		label = "-" + label
	}

	return filepath.Join(dir, fmt.Sprintf("%08d-%s%s%s", last+1, randomHex(8), label, segmentSuffix)), nil
}

// describe writes context.json if it is missing or describes another context.
func (j *Journal) describe() error {
	if info, err := readContext(j.dir); err == nil && info.Digest == j.Digest {
		return nil
	}
	data, _ := json.MarshalIndent(contextFile{Format: Format, Digest: j.Digest, Context: j.json}, "", "  ")
	return j.store.writeFile(filepath.Join(j.dir, "context.json"), append(data, '\n'))
}

// close waits until all appended entries are on disk and stops the goroutine.
func (j *Journal) close() {
	j.mu.Lock()
	started, already := j.started, j.closed
	j.closed = true
	j.mu.Unlock()
	if started && !already {
		j.wake()
		<-j.done
	}
}
