package openai

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func collect(t testing.TB, text string, size int) []string {
	t.Helper()
	var r EventReader
	var out []string
	in := Buffer{bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(text)), size)}
	err := r.Read(in, func(e Event) error {
		out = append(out, e.Type+"|"+string(e.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEventStreamStandard(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"lf", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"cr", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"all kinds of line ends", "data: a\r\n\ndata: b\n\rdata: c\r\n\r\n\r\n", []string{"|a", "|b", "|c"}},
		{"byte order mark", "\ufeffdata: a\n\n\ufeffdata: b\n\n", []string{"|a"}},
		{"several data lines", "data: {\"a\":\ndata: 1}\n\n", []string{"|{\"a\":\n1}"}},
		{"comments", ": ping\n\n:\ndata: a\n: more\n\n", []string{"|a"}},
		{"event and other fields", "event: error\nid: 7\nretry: 10\nfoo\ndata: x\n\ndata: y\n\n", []string{"error|x", "|y"}},
		{"one blank only is dropped", "data:  a\n\ndata:b\n\n", []string{"| a", "|b"}},
		{"data without a colon", "data\n\n", []string{"|"}},
		{"an empty event is none", "event: a\n\ndata: b\n\n", []string{"|b"}},
		{"end without an empty line", "data: a\n\ndata: [DONE]", []string{"|a", "|[DONE]"}},
		{"many bytes", "data: \u00e9\u4e16\U0001f600\n\n", []string{"|\u00e9\u4e16\U0001f600"}},
		{"nothing", "", nil},
	} {
		for _, size := range []int{16, 4096} {
			if got := collect(t, c.text, size); !slices.Equal(got, c.want) {
				t.Errorf("%s with a buffer of %d: got %q, want %q", c.name, size, got, c.want)
			}
		}
	}
}

func TestLongLinesAreErrors(t *testing.T) {
	var r EventReader
	in := Buffer{bufio.NewReader(strings.NewReader("data: " + strings.Repeat("x", MaxEvent+1)))}
	err := r.Read(in, func(Event) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "longer than 16 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestReadStopsAtAnError(t *testing.T) {
	var r EventReader
	n := 0
	in := Buffer{bufio.NewReader(strings.NewReader("data: a\n\ndata: b\n\n"))}
	err := r.Read(in, func(Event) error { n++; return fmt.Errorf("no") })
	if err == nil || n != 1 {
		t.Errorf("%v after %d events", err, n)
	}
}

// FuzzRead checks that the events do not depend on the size of the buffer.
func FuzzRead(f *testing.F) {
	f.Add("data: a\r\n\r\n: c\ndata: {}\ndata: b\n\n")
	f.Add("data: x\n\ndata: [DONE]")
	f.Fuzz(func(t *testing.T, text string) {
		whole, cut := collect(t, text, len(text)+16), collect(t, text, 16)
		if !slices.Equal(whole, cut) {
			t.Errorf("whole %q, in pieces %q", whole, cut)
		}
	})
}
