package publish

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/scripttest"
)

// ghFor puts a program gh in front of the others.
func ghFor(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	scripttest.Write(t, filepath.Join(dir, "gh"), "#!/bin/sh\n"+script)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}

// TestNobodyIsAsked: a session of its own has no terminal, which ssh asks though its
// input is none.
func TestNobodyIsAsked(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here: ", err)
	}
	ghFor(t, `[ "$(cut -d' ' -f6 /proc/$$/stat)" = $$ ] && echo own session
if read line; then echo "input $line"; fi
echo "$GIT_TERMINAL_PROMPT $GH_PROMPT_DISABLED $SSH_ASKPASS_REQUIRE $GCM_INTERACTIVE"
`)
	t.Setenv("GCM_INTERACTIVE", "auto")
	t.Setenv("GIT_TERMINAL_PROMPT", "1")
	t.Setenv("SSH_ASKPASS_REQUIRE", "x") // so that the test's end restores it
	if err := os.Unsetenv("SSH_ASKPASS_REQUIRE"); err != nil {
		t.Fatal(err)
	}
	if out, err := (programs{}).gh(t.Context(), "pr", "list"); err != nil || out != "own session\n0 1 never auto" {
		t.Errorf("%q, %v", out, err)
	}
}

// heard passes on what a stage says.
type heard struct {
	stage.Events
	say func(address, level, text string)
}

func (h heard) Message(address, level, text string) { h.say(address, level, text) }

// TestWhatIsWaitedFor is said, once for a command, and the command goes on.
func TestWhatIsWaitedFor(t *testing.T) {
	dir := ghFor(t, `while ! test -e "$(dirname "$0")/go"; do sleep 0.01; done
echo '[]'
`)
	var said []string
	c := &Config{slow: time.Nanosecond}
	by := c.programs(&stage.RunContext{Address: "publish.pr", Events: heard{say: func(address, level, text string) {
		said = append(said, address+" "+level+" "+text)
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
			t.Error(err)
		}
	}}})
	if out, err := by.gh(t.Context(), "pr", "list"); err != nil || out != "[]" {
		t.Errorf("%q, %v", out, err)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "publish.pr warn gh pr list has not ended after 1ns and is waited for: ") {
		t.Errorf("%q", said)
	}
	c.slow = 0
	if by = c.programs(&stage.RunContext{}); by.slow != defaultSlow || by.tell != nil {
		t.Errorf("%+v", by)
	}
}

// TestInterruptedPush ends with all that git has started, such as a hook that hangs.
func TestInterruptedPush(t *testing.T) {
	b := newBench(t)
	remote, fifo := t.TempDir(), filepath.Join(t.TempDir(), "fifo")
	git(t, remote, "init", "-q", "--bare")
	git(t, b.repo, "remote", "add", "origin", remote)
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	hooks := filepath.Join(b.repo, ".git", "hooks")
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		t.Fatal(err)
	}
	scripttest.Write(t, filepath.Join(hooks, "pre-push"), "#!/bin/sh\ntrap '' TERM\nexec 3> "+fifo+"\necho begun >&3\nwhile test -e "+fifo+"; do sleep 0.05; done\n")
	c := b.config(func(c *Config) { c.Push, c.Remote = true, "origin" })
	if diags := c.Check(&stage.CheckContext{}); diags.HasErrors() {
		t.Fatal(diags)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, &stage.RunContext{Address: "publish.git", OutDir: b.out, PlanDir: b.repo, Upstream: func() []stage.Finished { return b.finished }})
		ended <- err
	}()
	hook, err := os.Open(fifo) // once the hook runs
	if err != nil {
		t.Fatal(err)
	}
	defer hook.Close()
	r := bufio.NewReader(hook)
	if line, err := r.ReadString('\n'); line != "begun\n" || err != nil {
		t.Fatal(line, err)
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "is committed on data/h200, but not pushed: git push: ") {
		t.Errorf("%v", err)
	}
	// It comes to its end once no process of the hook is left.
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
}

// TestWhatToDoUnasked: git says why it failed where it would have asked, and aicplan
// what to do.
func TestWhatToDoUnasked(t *testing.T) {
	b := newBench(t)
	git(t, b.repo, "remote", "add", "origin", "ssh://git@host.example/o/r")
	ssh := filepath.Join(t.TempDir(), "ssh")
	scripttest.Write(t, ssh, "#!/bin/sh\necho 'Host key verification failed.' >&2\nexit 255\n")
	t.Setenv("GIT_SSH_COMMAND", ssh)
	_, err := b.run(b.config(func(c *Config) { c.Push, c.Remote = true, "origin" }))
	if err == nil || !strings.Contains(err.Error(), "Host key verification failed.") || !strings.Contains(err.Error(), "nobody is asked here: add the key to ssh-agent") {
		t.Errorf("%v", err)
	}
}
