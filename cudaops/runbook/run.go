package runbook

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"aicplan/cudaops/server"
	"aicplan/sink/base/fileutil"
)

// Options configure a run.
type Options struct {
	// Dir is the working directory of the blocks.
	Dir string

	// Health bounds the health check including its retries. Run bounds each run.
	Health, Run time.Duration

	// Pause is the time between two tries of a health check.
	Pause time.Duration

	// Out receives the output of the blocks. Each line is prefixed with its server and block.
	Out io.Writer
}

// ServerRun is the result of one server.
type ServerRun struct {
	Server string `json:"server"`

	// Setup and Health are the errors of set-up and health check, or "".
	Setup  string      `json:"setup_error,omitempty"`
	Health string      `json:"health_error,omitempty"`
	Tries  int         `json:"health_tries"`
	Runs   []RunResult `json:"runs"`

	// Cleanup lists what was stopped. CleanupError is the error for what could not be stopped.
	Cleanup      []string `json:"cleanup"`
	CleanupError string   `json:"cleanup_error,omitempty"`
}

// RunResult is the result of one run.
type RunResult struct {
	Tag   string `json:"tag"`
	Place string `json:"place"`
	Code  int    `json:"exit_code"`
	Error string `json:"error,omitempty"`
}

// OK reports whether everything succeeded.
func (r *ServerRun) OK() bool {
	return r.Setup == "" && r.Health == "" && r.CleanupError == "" && len(r.Runs) > 0 &&
		!slices.ContainsFunc(r.Runs, func(x RunResult) bool { return x.Error != "" || x.Code != 0 })
}

// Lines describes the result for people.
func (r *ServerRun) Lines() []string {
	var out []string
	line := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if why := r.Setup + r.Health; why != "" {
		line("FAILED: %s", why)
	} else {
		line("healthy after %d tries", r.Tries)
	}

	for _, x := range r.Runs {
		switch {
		case x.Error != "":
			line("FAILED: %s", x.Error)
		case x.Code != 0:
			line("FAILED: %s ended with exit code %d", x.Place, x.Code)
		default:
			line("passed: %s", x.Place)
		}
	}

	if len(r.Cleanup) > 0 {
		line("stopped %s", strings.Join(r.Cleanup, ", "))
	}
	if r.CleanupError != "" {
		line("FAILED to clean up: %s", r.CleanupError)
	}

	return out
}

// Execute starts the set-up of a server in the background, waits for its health check and executes its
// runs. It always stops what was started.
func Execute(ctx context.Context, s Server, o Options) *ServerRun {
	res := &ServerRun{Server: s.Name, Runs: []RunResult{}, Cleanup: []string{}}
	e := &execution{server: s, o: o}
	if err := e.files(); err != nil {
		res.Setup = err.Error()
		return res
	}

	own, err := fileutil.NewTempFolder("docs")
	if err != nil {
		res.Setup = err.Error()
		return res
	}
	defer own.Remove()
	e.env = filepath.Join(own.Path, "env")
	var before seen

	if before.ids, before.err = containers(ctx); ctx.Err() != nil {
		res.Setup = "interrupted before the set-up"
		return res
	}

	setup, err := e.start(s.Setup, true)
	if err != nil {
		res.Setup = err.Error()
		return res
	}

	defer e.cleanup(res, setup, before)

	if res.Tries, err = e.healthy(ctx, setup); err != nil {
		if errors.Is(err, errSetup) {
			res.Setup = err.Error()
		} else {
			res.Health = err.Error()
		}
		return res
	}

	for i := range s.Runs {
		b := &s.Runs[i]
		r := RunResult{Tag: b.Tag, Place: b.Place}
		if r.Code, err = e.once(ctx, b, o.Run); err != nil {
			r.Error = err.Error()
		}
		res.Runs = append(res.Runs, r)
		if ctx.Err() != nil {
			break
		}
	}

	return res
}

// execution is the state of running one server.
type execution struct {
	server Server
	o      Options
	env    string // file with the variables exported by the set-up
	mu     sync.Mutex
}

var errSetup = errors.New("the set-up failed")

// files writes the files from the pages. Paths outside Dir are rejected.
func (e *execution) files() error {
	if len(e.server.Files) == 0 {
		return nil
	}

	root, err := os.OpenRoot(e.o.Dir)
	if err != nil {
		return err
	}
	defer root.Close()

	for _, b := range e.server.Files {
		path := filepath.Clean(b.Attributes["path"])
		if dir := filepath.Dir(path); dir != "." {
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("%s: %w", b.Place, err)
			}
		}
		if err := root.WriteFile(path, []byte(b.Text+"\n"), 0o644); err != nil {
			return fmt.Errorf("%s: %w", b.Place, err)
		}
	}

	return nil
}

// start starts a block in a shell. If setup is true, exported variables are saved to a file after each
// command, because later blocks need them before the set-up ends, and the shell waits for the background
// jobs, so that they are stopped with it.
func (e *execution) start(b *Block, setup bool) (*server.Process, error) {
	text := b.Text
	if setup {
		// Ignore errors, because the folder may be removed while a set-up is being stopped.
		text = "trap '{ export -p > \"$AICPLAN_DOCS_ENV.$BASHPID\" && mv \"$AICPLAN_DOCS_ENV.$BASHPID\" " +
			"\"$AICPLAN_DOCS_ENV\"; } 2>/dev/null' DEBUG EXIT\n" + text + "\nwait\n"
	} else {
		text = "[ -f \"$AICPLAN_DOCS_ENV\" ] && . \"$AICPLAN_DOCS_ENV\"\n" + text
	}

	p, err := server.Start(server.Spec{Command: []string{"bash", "-c", text}, Dir: e.o.Dir,
		Env: []string{"AICPLAN_DOCS_ENV=" + e.env}, Output: func(r io.Reader) { e.copy(b, r) }})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Place, err)
	}
	return p, nil
}

// copy writes the output of a block with a prefix before each line.
func (e *execution) copy(b *Block, r io.Reader) {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			e.mu.Lock()
			fmt.Fprintf(e.o.Out, "%s %s: %s\n", e.server.Name, b.Kind, strings.TrimSuffix(line, "\n"))
			e.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// failed returns how the block ended if it ended with an error, else "".
func failed(p *server.Process) string {
	if p.Code() == 0 {
		return ""
	}
	return p.Exit()
}

// once runs a block until it ends, kills its background processes and returns its exit code.
func (e *execution) once(ctx context.Context, b *Block, limit time.Duration) (code int, err error) {
	p, err := e.start(b, false)
	if err != nil {
		return -1, err
	}

	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}

	select {
	case <-p.Done():
	case <-ctx.Done():
		err = fmt.Errorf("%s: interrupted", b.Place)
	case <-late:
		err = fmt.Errorf("%s: it did not end within %v", b.Place, limit)
	}

	code = p.Code()
	p.Stop(syscall.SIGKILL, 0)
	if err == nil && code < 0 {
		err = fmt.Errorf("%s: %s", b.Place, p.Exit())
	}

	return code, err
}

// healthy repeats the health check until it passes, and returns the number of tries.
func (e *execution) healthy(ctx context.Context, setup *server.Process) (tries int, err error) {
	begin := time.Now()
	b := e.server.Health
	last := ""

	for {
		if how := failed(setup); how != "" {
			return tries, fmt.Errorf("%w (%s): %s", errSetup, e.server.Setup.Place, how)
		}

		left := e.o.Health - time.Since(begin)
		if left <= 0 {
			return tries, fmt.Errorf("%s: it did not pass within %v, in %d tries%s", b.Place, e.o.Health, tries, last)
		}

		tries++
		hctx, cancel := context.WithCancel(ctx)
		stop := make(chan struct{})
		go func() { // a failed set-up cancels the health check
			select {
			case <-setup.Done():
				if failed(setup) != "" {
					cancel()
				}
			case <-stop:
			}
		}()

		code, err := e.once(hctx, b, left)
		close(stop)
		cancel()
		if ctx.Err() != nil {
			return tries, ctx.Err()
		}

		switch {
		case err == nil && code == 0:
			return tries, nil
		case err == nil:
			last = fmt.Sprintf("; the last one ended with exit status %d", code)
		default:
			last = fmt.Sprintf("; the last one failed: %v", err)
		}

		select {
		case <-ctx.Done():
		case <-time.After(e.o.Pause):
		}
	}
}

// patience is how long to wait for processes after SIGTERM.
const patience = 5 * time.Second

// cleanup stops the processes and containers that the blocks started.
func (e *execution) cleanup(res *ServerRun, setup *server.Process, before seen) {
	for _, pid := range setup.Members() {
		res.Cleanup = append(res.Cleanup, fmt.Sprintf("process %d", pid))
	}

	var err error
	if left := setup.Stop(syscall.SIGTERM, patience).Left; len(left) > 0 {
		err = fmt.Errorf("processes %v could not be stopped", left)
	}

	removed, left := before.removeNew(context.Background())
	res.Cleanup = append(res.Cleanup, removed...)

	if err = errors.Join(err, left); err != nil {
		res.CleanupError = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}
