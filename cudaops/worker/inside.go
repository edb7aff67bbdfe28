package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// spawnInside starts a worker as a goroutine of this process, with the same protocol over
// pipes. It is for hosts without a device and native code, for which a process would only
// cost memory and time. A panic of the host's goroutine ends its case. A host that ignores
// its context cannot be killed.
func spawnInside(spec Spec) (*Process, error) {
	childIn, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	from, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), to.Close())
	}

	lf, err := openLog(spec.LogPath, spec.LogLimit, fmt.Sprintf("worker %s starts inside the engine %s", spec.Init.Slot,
		time.Now().UTC().Format(time.RFC3339)))
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), to.Close(), from.Close(), childOut.Close())
	}

	close(lf.done) // it has no output
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{
		spec: spec, cancel: cancel,
		log: lf, to: to, from: from, outbox: make(chan []byte, outboxSize),
		events: make(chan []Event, 16), exited: make(chan struct{}), ended: make(chan struct{}),
	}

	p.lines = newLineReader(p.from, MaxLine)
	p.lines.secrets = spec.Secrets
	go p.write()
	go func() {
		err := serveInside(ctx, childIn, childOut, spec.Inside)
		cancel()
		closeErr := errors.Join(childIn.Close(), childOut.Close())
		p.mu.Lock()
		how := "it returned"
		switch {
		case p.killed != "":
			how = p.killed
			p.exit.Exception = p.killed
		case err != nil:
			how = err.Error()
			p.exit = Exit{Exception: "an error", Tail: how}
		case closeErr != nil:
			how = closeErr.Error()
		}

		if spec.Secrets != nil {
			how = string(spec.Secrets.Bytes([]byte(how)))
			p.exit.Tail = string(spec.Secrets.Bytes([]byte(p.exit.Tail)))
		}

		p.mu.Unlock()
		close(p.exited)
		p.to.Close()
		lf.close("worker " + spec.Init.Slot + " ended: " + how)
		close(p.ended)
	}()

	return p, nil
}

// serveInside is ServeOn, and returns a panic outside of the host's calls as an error.
func serveInside(ctx context.Context, in, out *os.File, host func(Init) (Host, error)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()

	return ServeOn(ctx, in, out, host)
}
