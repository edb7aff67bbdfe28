package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/command"
)

// defaultSlow is more than git and gh take with a server that is well.
const defaultSlow = 45 * time.Second

// programs runs git and gh. A push takes as long as it takes: nothing but the run's
// end ends one, but who waits hears what for.
type programs struct {
	tell func(text string) // nil tells nobody
	slow time.Duration     // until then
}

func (c *Config) programs(rc *stage.RunContext) programs {
	p := programs{slow: c.slow}
	if p.slow == 0 {
		p.slow = defaultSlow
	}
	if rc.Events != nil {
		p.tell = func(text string) { rc.Events.Message(rc.Address, "warn", text) }
	}
	return p
}

// run runs a command in a session of its own, where no descendant, such as ssh, finds
// a terminal to ask. It is asked to end with the context, since git then removes its
// locks, and killed a second later with all that it has started.
func (p programs) run(ctx context.Context, cmd *exec.Cmd, what string) error {
	cmd.Env = unasked(cmd.Env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	end := func(sig syscall.Signal) error {
		err := syscall.Kill(-cmd.Process.Pid, sig)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	cmd.Cancel = func() error { return end(syscall.SIGTERM) }
	if err := command.Start(cmd); err != nil {
		return err
	}
	stop := p.tellLate(cmd.Process.Pid, what)
	err := command.Wait(cmd)
	stop()
	if ctx.Err() != nil {
		_ = end(syscall.SIGKILL) // ends its descendants too
	}
	return err
}

// tellLate says what is waited for, unless stop is called before.
func (p programs) tellLate(pid int, what string) (stop func()) {
	if p.tell == nil {
		return func() {}
	}
	told := make(chan struct{})
	timer := time.AfterFunc(p.slow, func() {
		defer close(told)
		p.tell(fmt.Sprintf("%s has not ended after %v and is waited for: its server, its network, a hook or a credential helper is slow or hangs; ps -fs %d shows what it has started, and kill %[3]d ends it", what, p.slow, pid))
	})
	return func() {
		if !timer.Stop() {
			<-told
		}
	}
}

// unasked adds the variables that keep programs from asking a person. One that the
// user has set stands, other than those of git and gh themselves.
func unasked(env []string) []string {
	env = append(env, "GIT_TERMINAL_PROMPT=0", "GH_PROMPT_DISABLED=1")
	for _, v := range []string{"SSH_ASKPASS_REQUIRE=never", "GCM_INTERACTIVE=never"} {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			env = append(env, v)
		}
	}
	return env
}
