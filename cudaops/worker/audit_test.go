package worker

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// read is how a process reads one message.
func readMessage(line []byte) (Event, error) {
	if ev, ok := parseResult(line, words{}); ok {
		return ev, nil
	}
	return parseEvent(line)
}

// Messages that are wrong by form or by size end the worker with a reason, and
// cost no more memory than their own size allows.
func TestHostileMessages(t *testing.T) {
	result := func(rows string) string { return `{"type":"result","seq":1,"rows":` + rows + `,"seconds":0.5}` }
	long := strings.Repeat
	for name, c := range map[string]struct{ line, want string }{ // want: "" for a message that is taken
		"result":                {result(`[{"latency":0.5}]`), ""},
		"empty name":            {result(`[{"":{"":1}}]`), ""},
		"digits":                {result(`[{"latency":` + long("9", 5000) + `}]`), ""}, // the row is judged later
		"seq twice":             {`{"type":"result","seq":2,"seq":1,"rows":[]}`, `the name "seq" twice`},
		"seq in two cases":      {`{"type":"result","seq":2,"Seq":1,"rows":[]}`, `the name "seq" twice`},
		"seq of a start twice":  {`{"type":"start","seq":2,"seq":1}`, `the name "seq" twice`},
		"latency twice":         {result(`[{"latency":1,"latency":2}]`), `the name "latency" twice`},
		"latency by an escape":  {result(`[{"latency":1,"l\u0061tency":2}]`), `the name "latency" twice`},
		"twice in an error":     {`{"type":"error","seq":1,"message":"a","message":"b"}`, `the name "message" twice`},
		"deep":                  {result(`[{"a":` + long("[", 100) + long("]", 100) + `}]`), "more than 64 levels"},
		"very deep":             {result(`[{"a":` + long("[", 1<<20) + long("]", 1<<20) + `}]`), "not a message"},
		"deep and cut":          {`{"type":"result","seq":1,"rows":` + long("[", 1<<20), "not a message"},
		"rows":                  {result(`[{}` + long(`,{}`, 1<<20) + `]`), "more than 131072 rows"},
		"rows with an escape":   {result(`[{"\u0061":1}` + long(`,{}`, 1<<20) + `]`), "more than 131072 rows"},
		"columns":               {result(`[{` + columns(1<<17) + `}]`), "more than 10000 names"},
		"lists of lists":        {result(`[` + long(`[],`, 1<<20) + `[]]`), "more than 131072 rows"},
		"seconds below zero":    {`{"type":"result","seq":1,"rows":[],"seconds":-5}`, "took -5 seconds"},
		"seconds beyond reason": {`{"type":"result","seq":1,"rows":[],"seconds":1e300}`, "took 1e+300 seconds"},
		"seconds of no float":   {`{"type":"result","seq":1,"rows":[],"seconds":` + long("9", 5000) + `}`, "malformed"},
		"seq of no integer":     {`{"type":"result","seq":` + long("9", 5000) + `,"rows":[]}`, "not a message"},
		"half a surrogate":      {result(`[{"kernel_source":"\ud800"}]`), ""}, // becomes U+FFFD
		"no UTF-8":              {result(`[{"kernel_source":"` + "\xc3\x28" + `"}]`), "not UTF-8"},
		"NUL":                   {result("[{\"a\":\"\x00\"}]"), "not a message"},
		"two messages":          {result(`[]`) + result(`[]`), "not a message"},
		"list":                  {`[1]`, "not a message"},
	} {
		var before, after runtime.MemStats
		line := []byte(c.line)
		runtime.ReadMemStats(&before)
		_, err := readMessage(line)
		runtime.ReadMemStats(&after)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !isGarbage(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 {
			t.Errorf("%s: %d bytes of a message cost %d MiB", name, len(line), used>>20)
		}
	}
}

func columns(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"c%d":1`, i)
	}
	return b.String()
}

// A line without an end is read up to the limit and no further.
func TestEndlessLine(t *testing.T) {
	r := &endless{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := newLineReader(r, MaxLine).next()
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("error %v", err)
	}
	if r.read > MaxLine+1<<20 {
		t.Errorf("%d bytes were read", r.read)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*MaxLine {
		t.Errorf("it cost %d MiB", used>>20)
	}
}

type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	if e.read > 100<<20 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = 'x'
	}
	e.read += len(b)
	return len(b), nil
}
