package live

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicplan/engine/checkpoint"
)

// story is the events of a run that goes well, but for some cases.
func story(at time.Time) []string {
	n := 0
	ev := func(typ string, fields string) string {
		n++
		return fmt.Sprintf(`{"@timestamp":%q,"@level":"info","@message":"m","type":%q,"run":"r1"%s}`,
			at.Add(time.Duration(n)*time.Second).Format(time.RFC3339Nano), typ, fields)
	}
	return []string{
		ev("run_start", `,"plan":"p.hcl","host":"n1","pid":7,"graph":[{"address":"grid.g","kind":"grid","after":[],"action":"ready"},{"address":"collect.g","kind":"collect","measures":true,"after":["grid.g"],"action":"collect","cases":10},{"address":"gate.<b>","kind":"gate","after":["collect.g"],"action":"run"}]`),
		ev("stage_start", `,"stage":"grid.g","kind":"grid"`),
		ev("stage_end", `,"stage":"grid.g","kind":"grid","status":"ok","seconds":0.1,"counts":{"planned":10}`),
		ev("stage_start", `,"stage":"collect.g","kind":"collect","reason":"nothing is there yet"`),
		ev("stage_progress", `,"stage":"collect.g","done":2,"failed":0,"skipped":0,"total":10,"before":2`),
		ev("case_failed", `,"stage":"collect.g","op":"gemm","class":"oom","message":"out of memory: 12 `+
			`GiB\nmore","params":{"m":1}`),
		ev("sample", `,"stage":"collect.g","worker":"w0","device_uuid":"GPU-1","params":{"m":2},"metrics":{"latency":0.5,"kernel":"x"}`),
		ev("case_failed", `,"stage":"collect.g","op":"gemm","class":"oom","message":"out of memory: 90 GiB","params":{"m":3}`),
		ev("stage_progress", `,"stage":"collect.g","done":4,"failed":2,"skipped":0,"total":10,"before":2`),
		strings.Replace(ev("message", `,"stage":"collect.g"`), `"@level":"info"`, `"@level":"warn"`, 1),
		ev("stage_end", `,"stage":"collect.g","kind":"collect","status":"partial","message":"8 `+
			`measured","seconds":9,"counts":{"planned":10,"measured":6,"reused":2,"failed":2}`),
		ev("run_end", `,"exit_code":3,"seconds":12`),
	}
}

func runAt(t testing.TB) (checkpoint.Run, func(lines ...string)) {
	t.Helper()
	r := checkpoint.Run{ID: "r1", Dir: t.TempDir(), Started: time.Now()}
	return r, func(lines ...string) {
		f, err := os.OpenFile(filepath.Join(r.Dir, "events.ndjson"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()

		if _, err := io.WriteString(f, strings.Join(lines, "")); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	r, write := runAt(t)
	f := Follow(r, nil)
	if err := f.Poll(); err != nil || len(f.State.Stages) != 0 {
		t.Fatalf("a run without events: %v", err)
	}

	lines := story(time.Now())

	// Lines come in pieces.
	text := strings.Join(lines[:9], "\n") + "\n"
	for len(text) > 0 {
		n := min(len(text), 37)
		write(text[:n])
		text = text[n:]
		if err := f.Poll(); err != nil {
			t.Fatal(err)
		}
	}

	s := f.State
	c := s.Stages[1]
	if len(s.Stages) != 3 || c.Status != Running || c.Done != 4 || c.Failed != 2 || c.Total != 10 ||
		c.Rate == nil || *c.Rate != 1 || *c.Left != 4 {
		t.Errorf("%+v", c)
	}

	if len(s.Failures) != 1 || s.Failures[0].Count != 2 || s.Failures[0].Message != "out of memory: 12 GiB" ||
		s.Failures[0].Example != `{"m":3}` {
		t.Errorf("%+v", s.Failures[0])
	}

	if len(s.Workers) != 1 || len(s.Workers[0].Samples) != 1 || s.Workers[0].Samples[0].Metrics["latency"] != 0.5 {
		t.Errorf("%+v", s.Workers)
	}

	if done, failed, _, total := s.Totals(); done != 4 || failed != 2 || total != 10 {
		t.Errorf("%d %d %d", done, failed, total)
	}

	if s.Word(s.Seen.Add(time.Second)) != Running || s.Word(s.Seen.Add(Silent)) != "lost" {
		t.Error(s.Word(s.Seen))
	}

	write("{cut by a kill\n", strings.Join(lines[9:], "\n"), "\n")

	if err := f.Poll(); err != nil {
		t.Fatal(err)
	}

	if !s.Ended || *s.ExitCode != 3 || s.Word(time.Now()) != "ended" || c.Done != 8 || c.Status != "partial" ||
		len(s.Messages) != 1 || s.Stages[2].Status != Waiting {
		t.Errorf("%+v %+v", s, c)
	}

	// What a full disk took of a line is taken back.
	events := filepath.Join(r.Dir, "events.ndjson")
	whole, err := os.Stat(events)
	if err != nil {
		t.Fatal(err)
	}

	write(`{"type":"message","@level":"wa`)

	if err := f.Poll(); err != nil {
		t.Fatal(err)
	}

	if err := os.Truncate(events, whole.Size()); err != nil {
		t.Fatal(err)
	}

	if err := f.Poll(); err != nil {
		t.Fatal(err)
	}

	write(`{"type":"message","@level":"warn"}`, "\n")

	if err := f.Poll(); err != nil || len(s.Messages) != 2 {
		t.Errorf("%v, %+v", err, s.Messages)
	}

	if err := os.Truncate(events, 10); err != nil {
		t.Fatal(err)
	}

	if err := f.Poll(); err == nil || !strings.Contains(err.Error(), "became shorter") {
		t.Error(err)
	}
}

// TestBounds: a long night takes no more room than a short one.
func TestBounds(t *testing.T) {
	t.Parallel()
	r, write := runAt(t)
	f := Follow(r, nil)
	begin := time.Now()

	var b strings.Builder
	for i := range 3000 {
		at := begin.Add(time.Duration(i) * 10 * time.Second).Format(time.RFC3339Nano)
		fmt.Fprintf(&b, `{"@timestamp":%q,"type":"stage_progress","stage":"collect.g","done":%d,"total":100000}`+
			"\n", at, i*7)
		fmt.Fprintf(&b, `{"@timestamp":%q,"type":"sample","stage":"collect.g","worker":"w0","metrics":{"latency":1}}`+"\n",
			at)
		fmt.Fprintf(&b, `{"@timestamp":%q,"type":"case_failed","stage":"collect.g","class":"c%d","message":"m"}`+"\n", at, i)
		fmt.Fprintf(&b, `{"@timestamp":%q,"@level":"warn","type":"message","stage":"collect.g"}`+"\n", at)
	}

	write(b.String())

	if err := f.Poll(); err != nil {
		t.Fatal(err)
	}

	s := f.State
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}

	if len(raw) > 200_000 || len(s.Messages) != maxMessages || len(s.Workers[0].Samples) > maxSamples ||
		len(s.Stages[0].Rates) > maxRates {
		t.Errorf("%d bytes, %d messages, %d samples, %d rates", len(raw), len(s.Messages), len(s.Workers[0].Samples),
			len(s.Stages[0].Rates))
	}

	n := 0
	for _, g := range s.Failures {
		n += g.Count
	}

	if n != 3000 {
		t.Errorf("%d failures of 3000 are counted", n)
	}
}

func server(t testing.TB, token string) (*httptest.Server, func(lines ...string)) {
	t.Helper()
	r, write := runAt(t)
	page := &Server{Token: token, Interval: 10 * time.Millisecond,
		Runs:   func() ([]checkpoint.Run, error) { return []checkpoint.Run{r}, nil },
		Report: func(id string) ([]byte, error) { return []byte("<p>report of " + id), nil }}
	srv := httptest.NewServer(page.Handler())
	t.Cleanup(func() { page.Close(); srv.Close() })
	return srv, write
}

func get(t testing.TB, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}

	if h := header.Get("Host"); h != "" {
		req.Host = h
	}

	req.Header = header
	res, err := (&http.Transport{}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()

	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}

	return res, string(b)
}

func TestServer(t *testing.T) {
	t.Parallel()
	srv, write := server(t, "")
	write(strings.Join(story(time.Now()), "\n"), "\n")

	for path, want := range map[string]string{"/": "aicplan", "/runs/r1": `data-run="r1"`,
		"/api/runs": `"run":"r1"`, "/api/runs/r1": `"exit_code":3`, "/api/runs/latest": `"exit_code":3`,
		"/runs/r1/report": "report of r1", "/assets/live.js": "EventSource", "/assets/live.css": ":root"} {
		res, body := get(t, srv.URL+path, http.Header{})
		if res.StatusCode != 200 || !strings.Contains(body, want) ||
			res.Header.Get("Content-Security-Policy") == "" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %.80s", path, res.StatusCode, body)
		}
	}

	for path, code := range map[string]int{"/api/runs/r2": 404, "/api/runs/..%2f..%2fetc": 404,
		"/runs/%2e%2e/report": 404, "/assets/live.html": 404, "/assets/..%2flive.go": 404, "/nothing": 404} {
		if res, _ := get(t, srv.URL+path, http.Header{}); res.StatusCode != code {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}

	// A name of a stranger that points here is turned away.
	if res, _ := get(t, srv.URL+"/api/runs", http.Header{"Host": {"evil.example:80"}}); res.StatusCode != 403 {
		t.Error(res.Status)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	srv, write := server(t, "secret")
	write(story(time.Now())[0], "\n")

	for _, path := range []string{"/", "/api/runs", "/api/runs/r1/stream", "/runs/r1/report", "/?token=wrong",
		"/assets/live.js"} {
		if res, body := get(t, srv.URL+path, http.Header{}); res.StatusCode != 401 || strings.Contains(body, "secret") {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}

	res, _ := get(t, srv.URL+"/?token=secret", http.Header{})
	if res.StatusCode != 303 || res.Header.Get("Location") != "/" || len(res.Cookies()) != 1 ||
		!res.Cookies()[0].HttpOnly {
		t.Errorf("%v", res)
	}

	for _, h := range []http.Header{{"Cookie": {"aicplan_token=secret"}}, {"Authorization": {"Bearer secret"}}} {
		if res, _ := get(t, srv.URL+"/api/runs", h); res.StatusCode != 200 {
			t.Errorf("%v: %d", h, res.StatusCode)
		}
	}
}

// TestStream: every reader sees each change.
func TestStream(t *testing.T) {
	t.Parallel()
	srv, write := server(t, "")
	lines := story(time.Now())
	write(lines[0], "\n")
	open := func() *bufio.Reader {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/api/runs/r1/stream", nil)
		if err != nil {
			t.Fatal(err)
		}

		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { res.Body.Close() })
		return bufio.NewReaderSize(res.Body, 1<<20)
	}

	next := func(r *bufio.Reader) State {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}

			if text, ok := strings.CutPrefix(line, "data: "); ok {
				var s State
				if err := json.Unmarshal([]byte(text), &s); err != nil {
					t.Fatal(err)
				}
				return s
			}
		}
	}

	a, b := open(), open()
	if s := next(a); len(s.Stages) != 3 {
		t.Errorf("%+v", s)
	}

	next(b)
	write(strings.Join(lines[1:], "\n"), "\n")

	for _, r := range []*bufio.Reader{a, b} {
		for s := next(r); !s.Ended; s = next(r) {
		}
	}
}

// TestRateFallsWhileStageHangs: what was fast and ends no case any more is not a minute
// from its end for ever, and a slow one keeps its rate between two cases.
func TestRateFallsWhileStageHangs(t *testing.T) {
	t.Parallel()
	r, write := runAt(t)
	f := Follow(r, nil)
	begin := time.Now().Truncate(time.Second)
	say := func(after int, rest string) *Stage {
		write(fmt.Sprintf(`{"@timestamp":%q,%s}`+"\n",
			begin.Add(time.Duration(after)*time.Second).Format(time.RFC3339Nano), rest))
		if err := f.Poll(); err != nil {
			t.Fatal(err)
		}
		return f.State.Stages[0]
	}

	progress := func(after, done, total int) *Stage {
		return say(after, fmt.Sprintf(`"type":"stage_progress","stage":"collect.g","done":%d,"total":%d`, done, total))
	}

	alive := `"type":"alive"`
	say(0, `"type":"stage_start","stage":"collect.g","kind":"collect"`)
	progress(0, 0, 100)

	if st := progress(20, 40, 100); *st.Rate != 2 || *st.Left != 30 {
		t.Errorf("at work: %v, %v", *st.Rate, *st.Left)
	}

	if st := say(40, alive); *st.Rate != 2 || *st.Left != 30 {
		t.Errorf("between two cases: %v, %v", *st.Rate, *st.Left)
	}

	if st := say(420, alive); *st.Rate != 0.1 || *st.Left != 600 {
		t.Errorf("nothing ended for 400 s: %v a second, %v s left", *st.Rate, *st.Left)
	}

	if st := progress(430, 60, 0); st.Left != nil {
		t.Errorf("%v s left of a number of cases that nobody knows", *st.Left)
	}

	if st := progress(440, 0, 100); st.Rate != nil || st.Left != nil {
		t.Errorf("begun anew: %+v", st)
	}
}

// TestRunWithoutEventsHasNoDuration: how long they took is not known, and not 0.
func TestRunWithoutEventsHasNoDuration(t *testing.T) {
	t.Parallel()
	r, write := runAt(t)
	for _, text := range []string{"", "{cut", "\n\x00\x00\n"} {
		write(text)
		if line := List([]checkpoint.Run{r}, nil, time.Now())[0]; line.Seconds != nil || line.ExitCode != nil {
			t.Errorf("%q: %v seconds, exit code %v", text, *line.Seconds, line.ExitCode)
		}
	}
}
