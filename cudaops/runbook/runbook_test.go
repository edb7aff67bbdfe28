package runbook

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aicplan/sink/base/testutil"
)

func TestParse(t *testing.T) {
	servers, err := Parse([]string{"testdata/servers.md"})
	if err != nil {
		t.Fatal(err)
	}
	if len(servers) != 2 || servers[0].Name != "alpha-openai" || servers[1].Name != "beta" {
		t.Fatalf("%+v", servers)
	}
	a, b := servers[0], servers[1]
	if a.Setup.Fences != 1 || a.Setup.Place != filepath.Join("testdata", "servers.md")+":7" ||
		a.Runs[0].Attributes["weight"] != "3" {
		t.Errorf("%+v %+v", a.Setup, a.Runs)
	}
	if b.Setup.Fences != 3 || !strings.Contains(b.Setup.Text, "export PORT=1\ntouch ready") || len(b.Runs) != 2 ||
		len(b.Files) != 1 {
		t.Errorf("%+v", b)
	}
}

func TestMistakesHaveTheirPlace(t *testing.T) {
	const block = "```bash\ntrue\n```\n"
	for _, c := range []struct{ text, want string }{
		{"<!-- setup-x-endpoint-server -->\n" + block, "p.md:1: setup-x-endpoint-server is not closed"},
		{"\n<!-- /setup-x-endpoint-server -->\n", "p.md:2: <!-- /setup-x-endpoint-server --> closes what is not open"},
		{"<!-- setup-x-endpoint-server -->\n<!-- health-check-x-endpoint-server -->\n",
			"p.md:2: health-check-x-endpoint-server begins inside setup-x-endpoint-server"},
		{"<!-- setup-x-endpoint-server -->\ntext\n<!-- /setup-x-endpoint-server -->\n",
			"p.md:3: setup-x-endpoint-server has no ```bash block"},
		{"<!-- setup-x-endpoint-server -->\n" + block + "<!-- /setup-x-endpoint-server -->\n",
			"server x has no block health-check-x-endpoint-server"},
		{strings.Repeat("<!-- setup-x-endpoint-server -->\n"+block+"<!-- /setup-x-endpoint-server -->\n", 2),
			"p.md:6: setup-x-endpoint-server is there twice; the first is at"},
		{"<!-- setup-file-x-endpoint-server -->\n" + block + "<!-- /setup-file-x-endpoint-server -->\n",
			"p.md:1: setup-file-x-endpoint-server needs path=FILE"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.md"), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse([]string{filepath.Join(dir, "p.md")}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q gave %v, want %q", c.text, err, c.want)
		}
	}
}

func options(t *testing.T, out *bytes.Buffer) Options {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	return Options{Dir: t.TempDir(), Out: out, Health: time.Minute, Run: time.Minute, Pause: 10 * time.Millisecond}
}

func TestRunsAndCleansUp(t *testing.T) {
	servers, err := Parse([]string{"testdata/servers.md"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	res := Execute(t.Context(), servers[0], options(t, &out))
	if !res.OK() || len(res.Cleanup) == 0 || !strings.Contains(out.String(), "alpha-openai aiperf-run: model is m-1") {
		t.Errorf("%+v\n%s", res, &out)
	}
	out.Reset()
	res = Execute(t.Context(), servers[1], options(t, &out))
	if res.OK() || res.Health != "" || len(res.Runs) != 2 || res.Runs[0].Code != 3 || res.Runs[1].Code != 0 {
		t.Errorf("%+v\n%s", res, &out)
	}
	if !slices.ContainsFunc(res.Cleanup, func(s string) bool { return strings.HasPrefix(s, "process ") }) ||
		res.CleanupError != "" {
		t.Errorf("a process that left its group was not stopped: %+v", res)
	}
	for _, want := range []string{"beta setup: DCGM_FI_DEV_POWER_USAGE, gauge", "beta aiperf-run: port 1",
		"beta aiperf-run: two"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

func TestFailedSetupEndsHealthCheck(t *testing.T) {
	var out bytes.Buffer
	block := func(text string) *Block { return &Block{Kind: Setup, Place: "p.md:1", Text: text, Fences: 1} }
	s := Server{Name: "x", Setup: block("echo no such image >&2; exit 4"),
		Health: block("while ! test -f ready; do sleep 0.02; done"), Runs: []Block{*block("true")}}
	res := Execute(t.Context(), s, options(t, &out))
	if !strings.Contains(res.Setup, "the set-up failed (p.md:1): exit status 4") || res.OK() {
		t.Errorf("%+v", res)
	}
}

// TestSetupOutputIsComplete checks that the output of a set-up is complete when its server has ended.
func TestSetupOutputIsComplete(t *testing.T) {
	var out bytes.Buffer
	block := func(text string) *Block { return &Block{Kind: Setup, Place: "p.md:1", Text: text, Fences: 1} }
	s := Server{Name: "x", Setup: block("trap 'echo it ends; exit' TERM\ntouch ready\nwhile :; do sleep 0.01; done"),
		Health: block("test -f ready"), Runs: []Block{*block("true")}}
	for range testutil.Rounds(3, 10) {
		o := options(t, &out)
		out.Reset()
		if res := Execute(t.Context(), s, o); !res.OK() || !strings.Contains(out.String(), "it ends") {
			t.Fatalf("%+v\n%s", res, &out)
		}
	}
}

// TestBackgroundServerOutlivesSetup checks that a background server outlives its set-up and its output is
// captured.
func TestBackgroundServerOutlivesSetup(t *testing.T) {
	var out bytes.Buffer
	block := func(text string) *Block { return &Block{Kind: Setup, Place: "p.md:1", Text: text, Fences: 1} }
	s := Server{
		Name: "x",
		Setup: block("(for i in $(seq 150); do sleep 0.01; done; echo it serves; touch served) &\necho $! > pid\nmv pid " +
			"ready"),
		Health: block("test -f ready"),
		Runs:   []Block{*block("while ! test -f served; do kill -0 $(cat ready) || test -f served || exit 1; sleep 0.01; done")},
	}
	if res := Execute(t.Context(), s, options(t, &out)); !res.OK() ||
		!strings.Contains(out.String(), "x setup: it serves") {
		t.Errorf("%+v\n%s", res, &out)
	}
}

func TestHealthCheckTimesOut(t *testing.T) {
	var out bytes.Buffer
	block := func(text string) *Block { return &Block{Kind: Setup, Place: "p.md:1", Text: text, Fences: 1} }
	s := Server{Name: "x", Setup: block("true"), Health: block("false"), Runs: []Block{*block("true")}}
	o := options(t, &out)
	o.Health = 300 * time.Millisecond
	res := Execute(t.Context(), s, o)
	if !strings.Contains(res.Health, "did not pass within 300ms") || res.Tries < 1 || len(res.Runs) != 0 {
		t.Errorf("%+v", res)
	}
	// A slow machine may not complete its only try in that time.
	why := res.Health[strings.Index(res.Health, "tries"):]
	if !strings.Contains(why, "the last one ended with exit status 1") &&
		!strings.Contains(why, "the last one failed: p.md:1: it did not end within") {
		t.Error(res.Health)
	}
}

func TestFilesStayBelowTheFolder(t *testing.T) {
	var out bytes.Buffer
	s := Server{Name: "x", Files: []Block{{Place: "p.md:1", Text: "x", Attributes: map[string]string{"path": "../evil"}}}}
	if res := Execute(t.Context(), s, options(t, &out)); !strings.Contains(res.Setup, "p.md:1") {
		t.Errorf("%+v", res)
	}
}
