package worker

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestParseEventRejectsMalformedMessages(t *testing.T) {
	t.Parallel()
	result := func(rows string) string { return `{"type":"result","seq":1,"rows":` + rows + `,"seconds":0.5}` }
	long := strings.Repeat
	for name, c := range map[string]struct{ line, want string }{ // want "" accepts the message
		"result":                  {result(`[{"latency":0.5}]`), ""},
		"empty name":              {result(`[{"":{"":1}}]`), ""},
		"many digits":             {result(`[{"latency":` + long("9", 5000) + `}]`), ""},
		"half a surrogate":        {result(`[{"kernel_source":"\ud800"}]`), ""}, // becomes U+FFFD
		"no seq":                  {`{"type":"result","rows":[]}`, "without a seq"},
		"unknown type":            {`{"type":"guess","seq":1}`, `type "guess"`},
		"nested too deep":         {result(`[{"a":` + long("[", 1<<20) + long("]", 1<<20) + `}]`), "not a message"},
		"cut":                     {`{"type":"result","seq":1,"rows":` + long("[", 1<<20), "not a message"},
		"negative seconds":        {`{"type":"result","seq":1,"rows":[],"seconds":-5}`, "took -5 seconds"},
		"implausible seconds":     {`{"type":"result","seq":1,"rows":[],"seconds":1e300}`, "took 1e+300 seconds"},
		"seconds beyond a float":  {`{"type":"result","seq":1,"rows":[],"seconds":` + long("9", 5000) + `}`, "malformed"},
		"seq beyond an integer":   {`{"type":"result","seq":` + long("9", 5000) + `,"rows":[]}`, "not a message"},
		"start with leading zero": {`{"type":"start","seq":007}`, "not a message"},
		"not UTF-8":               {result(`[{"kernel_source":"` + "\xc3\x28" + `"}]`), "not UTF-8"},
		"NUL":                     {result("[{\"a\":\"\x00\"}]"), "not a message"},
		"two messages":            {result(`[]`) + result(`[]`), "not a message"},
		"list":                    {`[1]`, "not a message"},
	} {
		env, err := openEnvelope([]byte(c.line))
		if err == nil {
			_, err = parseEvent(env, []byte(c.line))
		}
		_, isGarbage := errors.AsType[*garbage](err)
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !isGarbage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestLineReaderStopsAtLimit(t *testing.T) {
	t.Parallel()
	r := &endless{}
	_, err := newLineReader(r, MaxLine).next()
	if err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("error %v", err)
	}
	if r.read > MaxLine+1<<20 {
		t.Errorf("%d bytes were read", r.read)
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
