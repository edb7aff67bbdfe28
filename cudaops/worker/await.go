package worker

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"aicplan/sink/base/textutil"
)

// DefaultSlowStart is longer than frameworks take to import from a local disk.
const DefaultSlowStart = 45 * time.Second

// awaitHello waits for the end of greet. It logs a slow start once, and returns true
// after the timeout.
func (p *Process) awaitHello(greeted <-chan error) (err error, late bool) {
	timeout := cmp.Or(p.spec.HelloTimeout, DefaultHelloTimeout)
	slow := min(cmp.Or(p.spec.SlowStart, DefaultSlowStart), timeout)
	help := ""
	if p.spec.StartHelp != "" {
		help = "; " + p.spec.StartHelp
	}

	timer := time.NewTimer(slow)
	defer timer.Stop()
	for left := timeout - slow; ; left = 0 {
		select {
		case err := <-greeted:
			return err, false
		case <-timer.C:
		}

		if left <= 0 {
			break
		}

		last := ""
		if line := textutil.OneLine(lastLines(p.log.lastLines(), 1)); line != "" {
			last = "; it printed last: " + textutil.Clip(line, 200)
		}

		p.logStart("warn", fmt.Sprintf("slow start: not ready after %v, and waited for up to %v (%s)%s%s", slow,
			timeout, p.describe(), help, last))
		timer.Reset(left)
	}

	select {
	case err := <-greeted: // it arrived together with the timeout
		return err, false
	default:
	}

	return fmt.Errorf("it sent no hello within %v%s", timeout, help), true
}

// describe returns the process id and the command for messages.
func (p *Process) describe() string {
	if p.spec.Inside != nil {
		return "it is a part of this process"
	}

	args := p.spec.Args
	if len(args) == 0 {
		args = []string{p.spec.Path}
	}

	return fmt.Sprintf("process %d: %s", p.Pid(), textutil.Clip(textutil.OneLine(strings.Join(args, " ")), 100))
}

// logStart logs a line about the start.
func (p *Process) logStart(level, text string) {
	if p.spec.Log == nil {
		return
	}

	if p.spec.Secrets != nil {
		text = string(p.spec.Secrets.Bytes([]byte(text)))
	}

	p.spec.Log(level, text)
}
