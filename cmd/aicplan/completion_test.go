package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCompletionInBash asks bash itself what the script offers.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	var script bytes.Buffer
	if code := Main([]string{"completion", "bash"}, nil, &script, &script); code != 0 {
		t.Fatalf("exit code %d: %s", code, script.String())
	}
	for _, c := range []struct{ words, want string }{
		{`aicplan pl`, "plan"},
		{`aicplan plan -targ`, "-target"},
		{`aicplan plan --targ`, "--target"},
		{`aicplan ckpt ""`, "list show verify import rm prune gc"},
		{`aicplan ckpt gc -dry`, "-dry-run"},
		{`aicplan data lint --rul`, "--rule --rules"},
	} {
		cmd := exec.Command(bash, "--norc", "-c", script.String()+"\nCOMP_WORDS=("+c.words+"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _aicplan; echo \"${COMPREPLY[@]}\"")
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%s: %q (%v), want %q", c.words, got, err, c.want)
		}
	}
}

// leaves are the verbs that do something themselves.
func leaves(t *testing.T) []string {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("aicplan"), kong.Bind(&app{}))
	if err != nil {
		t.Fatal(err)
	}
	words := completionsOf(parser)
	var out []string
	for _, verb := range words.verbs {
		if len(words.under[verb]) == 0 {
			out = append(out, verb)
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d verbs", len(out))
	}
	return out
}
