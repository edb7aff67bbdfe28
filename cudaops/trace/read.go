package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"aicplan/sink/base/fileutil"
)

// Options of [Read].
type Options struct {
	Top int // number of kernels to list by time
}

// Read evaluates a file and returns one result per device with kernels. For a trace without kernels, it
// returns one result with Error set. It returns an error if the file cannot be read or is not a trace. The
// error contains the path and the position.
func Read(path string, o Options) ([]*Analysis, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileutil.Explain("read", path, err)
	}
	defer f.Close()

	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; give the traces in it, such as %s", path,
			filepath.Join(path, "*.json*"))
	}

	br := bufio.NewReaderSize(f, 1<<20)
	if magic, _ := br.Peek(len(sqliteMagic)); string(magic) == sqliteMagic {
		rec := newRecording(DefaultRules())
		if err := readSQLite(path, rec); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return rec.results(path, "nsys", o.Top), nil
	}

	out, err := ReadFrom(br, path, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return out, nil
}

// ReadFrom is like [Read] for a stream. name is used as the file name of the results. Gzip and zstd are
// detected by their first bytes, not by the name.
func ReadFrom(r io.Reader, name string, o Options) ([]*Analysis, error) {
	br := bufio.NewReaderSize(r, 1<<20)
	zr, err := decompressor(br)
	if err != nil {
		return nil, err
	}

	if zr != nil {
		defer zr.Close()
		br = bufio.NewReaderSize(zr, 1<<20)
	}

	rec := newRecording(DefaultRules())
	head, _ := br.Peek(4096)
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		if _, err := br.Discard(3); err != nil {
			return nil, err
		}
		head, _ = br.Peek(4096)
	}

	if what := otherFile(head, name); what != "" {
		return nil, errors.New(what)
	}

	if err := readKineto(br, rec); err != nil {
		return nil, err
	}

	if rec.meta.Rank == nil {
		rec.meta.Rank = RankOfName(name)
	}

	return rec.results(name, "kineto", o.Top), nil
}

// maxWindow limits the memory for zstd decompression. It is zstd's own default limit.
const maxWindow = 128 << 20

// decompressor returns a reader for compressed data, or nil if the data is not compressed.
func decompressor(br *bufio.Reader) (io.ReadCloser, error) {
	magic, _ := br.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return zr, nil
	// pzstd starts with a skippable frame
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), bytes.HasSuffix(magic, []byte{0x2a, 0x4d, 0x18}):
		zr, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return zr.IOReadCloser(), nil
	}

	return nil, nil
}

// otherFile returns an error text for file types that are commonly confused with traces, or "" if the file
// may be a trace.
func otherFile(head []byte, name string) string {
	for _, k := range []struct{ magic, what string }{
		{"PK\x03\x04", "it is a zip archive; unpack it first"},
		{"\xfd7zXZ", "it is compressed by xz; decompress it first (xz -d)"},
		{"BZh", "it is compressed by bzip2; decompress it first (bunzip2)"},
		{sqliteMagic, "it is an export of nsys to SQLite, which cannot be read while it is compressed; decompress it first"},
	} {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return k.what
		}
	}

	switch filepath.Ext(name) {
	case ".nsys-rep", ".qdrep":
		return "it is a report of nsys; export it by nsys export --type sqlite"
	case ".qdstrm":
		return "it is what nsys has recorded and not made a report of; the importer of nsys (QdstrmImporter) makes one, " +
			"then export it by nsys export --type sqlite"
	case ".csv":
		return "tables of nsys stats are not read; export the report by nsys export --type sqlite"
	}

	return ""
}

var (
	rankPattern = regexp.MustCompile(`(?i)(?:rank[-_ ]?|kineto_trace_)(\d+)`)
	// sglangPattern matches SGLang's notation of parallelism in file names: ID-TP-1-DP-0.trace.json.gz.
	sglangPattern = regexp.MustCompile(`-(TP|DP|PP|EP)-(\d+)`)
	// mergedPattern matches SGLang's process ids in merged traces, [TP03] 0.
	mergedPattern = regexp.MustCompile(`^\[TP(\d+)\] `)
)

// RankOfName returns the rank in the name of a file or id of a process, or nil if there is none. It supports rank-3,
// rank3, kineto_trace_3, [TP03] 0, and SGLang's -TP-3 if all other parallel groups have index 0.
func RankOfName(name string) *int {
	if m := mergedPattern.FindStringSubmatch(name); m != nil {
		return number(m[1])
	}

	base := filepath.Base(name)
	if all := rankPattern.FindAllStringSubmatch(base, -1); len(all) > 0 {
		return number(all[len(all)-1][1])
	}

	var tp *int
	for _, m := range sglangPattern.FindAllStringSubmatch(base, -1) {
		n := number(m[2])
		switch {
		case n == nil:
			return nil
		case m[1] == "TP":
			tp = n
		case m[1] != "EP" && *n > 0: // expert parallelism uses the same ranks as tensor parallelism
			return nil
		}
	}

	return tp
}

func number(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}
