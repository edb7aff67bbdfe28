package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// Options of [Read].
type Options struct {
	Rules Rules // nil: DefaultRules
	Top   int   // kernels to list by time, 0: none
}

// Read evaluates one file, one result a device that has kernels in it. A trace
// without kernels is a result with Error set. An error means that the file
// cannot be read or is no trace; it names the file and the place.
func Read(path string, o Options) ([]*Analysis, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out, err := ReadFrom(f, path, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// ReadFrom is [Read] for a stream; name is what results are told by. Gzip is
// recognised by its first bytes, not by the name.
func ReadFrom(r io.Reader, name string, o Options) ([]*Analysis, error) {
	if o.Rules == nil {
		o.Rules = DefaultRules()
	}
	br := bufio.NewReaderSize(r, 1<<20)
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		defer zr.Close()
		ahead := readAhead(zr)
		defer ahead.Close()
		br = bufio.NewReaderSize(ahead, 1<<20)
	}
	rec := newRecording(o.Rules)
	format, read := "kineto", readKineto
	head, _ := br.Peek(4096)
	if looksLikeCSV(head) {
		format, read = "nsys", readNsys
	}
	if err := read(br, rec); err != nil {
		return nil, err
	}
	if rec.meta.Rank == nil {
		rec.meta.Rank = RankOfName(name)
	}
	return rec.results(name, format, o.Top), nil
}

var rankPattern = regexp.MustCompile(`(?i)(?:rank[-_]?|kineto_trace_|nsys_|torch_et_)(\d+)`)

// RankOfName reads a rank from a file's name: rank-3, rank3, kineto_trace_3. It is
// nil without one.
func RankOfName(name string) *int {
	all := rankPattern.FindAllStringSubmatch(filepath.Base(name), -1)
	if len(all) == 0 {
		return nil
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		return nil
	}
	return &n
}

// readAhead decompresses in a goroutine of its own, concurrently with the scanner.
func readAhead(r io.Reader) *io.PipeReader {
	pr, pw := io.Pipe()
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{pw}, r, make([]byte, 1<<20))
		pw.CloseWithError(err) // nil is io.EOF
	}()
	return pr
}
