package sse

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func collect(t testing.TB, text string, piece int) []string {
	t.Helper()
	var r Reader
	var out []string
	add := func(e Event) error {
		out = append(out, e.Type+"|"+string(e.Data))
		return nil
	}
	for b := []byte(text); len(b) > 0; {
		n := min(piece, len(b))
		// A copy: the reader must not keep what it was given.
		p := slices.Clone(b[:n])
		if err := r.Feed(p, add); err != nil {
			t.Fatal(err)
		}
		for i := range p {
			p[i] = 'X'
		}
		b = b[n:]
	}
	if err := r.End(add); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStandard(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"lf", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"cr", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"mixed line ends", "data: a\r\n\ndata: b\r\r\n", []string{"|a", "|b"}},
		{"several data lines", "data: {\"a\":\ndata: 1}\n\n", []string{"|{\"a\":\n1}"}},
		{"comments", ": ping\n\n:\ndata: a\n: more\n\n", []string{"|a"}},
		{"event and other fields", "event: error\nid: 7\nretry: 10\nfoo\ndata: x\n\ndata: y\n\n", []string{"error|x", "|y"}},
		{"one blank only is dropped", "data:  a\n\ndata:b\n\n", []string{"| a", "|b"}},
		{"data without a colon", "data\n\n", []string{"|"}},
		{"an empty event is none", "event: a\n\ndata: b\n\n", []string{"|b"}},
		{"mark", "\xef\xbb\xbfdata: a\n\n", []string{"|a"}},
		{"half a mark", "\xef\xbbdata: a\n\ndata: b\n\n", []string{"|b"}},
		{"end without an empty line", "data: a\n\ndata: [DONE]", []string{"|a", "|[DONE]"}},
		{"many bytes", "data: \u00e9\u4e16\U0001f600\n\n", []string{"|\u00e9\u4e16\U0001f600"}},
		{"nothing", "", nil},
	} {
		for piece := 1; piece <= len(c.text)+1; piece++ {
			if got := collect(t, c.text, piece); !slices.Equal(got, c.want) {
				t.Errorf("%s in pieces of %d: got %q, want %q", c.name, piece, got, c.want)
			}
		}
	}
}

func TestTooLong(t *testing.T) {
	var r Reader
	err := r.Feed([]byte("data: "+strings.Repeat("x", MaxEvent+1)), func(Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestErrorEnds(t *testing.T) {
	var r Reader
	n := 0
	err := r.Feed([]byte("data: a\n\ndata: b\n\n"), func(Event) error { n++; return fmt.Errorf("no") })
	if err == nil || n != 1 {
		t.Errorf("%v after %d events", err, n)
	}
}

// FuzzSplit holds that how a stream is cut into reads does not matter.
func FuzzSplit(f *testing.F) {
	f.Add("data: a\r\n\r\n: c\ndata: {}\ndata: b\n\n", 3)
	f.Add("\xef\xbb\xbfdata: x\r\rdata: [DONE]", 1)
	f.Fuzz(func(t *testing.T, text string, piece int) {
		if piece < 1 {
			piece = 1
		}
		whole, cut := collect(t, text, len(text)+1), collect(t, text, piece)
		if !slices.Equal(whole, cut) {
			t.Errorf("whole %q, in pieces of %d %q", whole, piece, cut)
		}
	})
}
