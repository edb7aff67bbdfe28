package worker

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"aicplan/sink/base/proc"
)

// greet sends init and reads hello.
func (p *Process) greet() error {
	init := p.spec.Init
	init.Type, init.Protocol = TypeInit, ProtocolVersion
	if err := p.send(init); err != nil {
		return p.goneBecause(err)
	}

	for {
		line, err := p.lines.next()
		if err != nil {
			return p.goneBecause(err)
		}

		env, err := openEnvelope(line)
		switch {
		case err != nil:
		case env.Type == TypeLog:
			var l Log
			if err = decodeMessage(line, &l); err == nil {
				p.logStart(l.Level, l.Text)
			}
		case env.Type == TypeAsk:
			err = p.answer(line)
		case env.Type == TypeHello:
			return p.takeHello(line)
		default:
			err = fmt.Errorf("a message of type %q", env.Type)
		}
		if err != nil {
			return fmt.Errorf("before its hello it sent %w", err)
		}
	}
}

func (p *Process) takeHello(line []byte) error {
	if err := decodeMessage(line, &p.Hello); err != nil {
		return fmt.Errorf("its hello is %w", err)
	}
	if p.Hello.Error == nil && p.Hello.Protocol != ProtocolVersion {
		return fmt.Errorf("it speaks version %d of the worker protocol and this aicplan version %d", p.Hello.Protocol,
			ProtocolVersion)
	}
	p.Hello.Window = max(p.Hello.Window, 1)
	return nil
}

// answer replies to a question. It returns an error if the message is invalid. If the
// question cannot be answered, the reply has an error.
func (p *Process) answer(line []byte) error {
	var q Question
	if err := decodeMessage(line, &q); err != nil {
		return err
	}

	a, err := Answer{}, errors.New("questions of this worker are not answered")
	if p.spec.Answer != nil {
		a, err = p.spec.Answer(q)
	}

	if err != nil {
		a.Error = err.Error()
	}

	a.Type = TypeAnswer
	return p.send(a)
}

// goneBecause explains a broken pipe by the end of its process if that is the reason. On a
// busy machine, the end of the process is seen later than that of the pipe.
func (p *Process) goneBecause(err error) error {
	timer := time.NewTimer(closedGrace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return fmt.Errorf("it ended with %s before its hello", p.exit.Exception)
	case <-timer.C:
		return fmt.Errorf("its pipe broke before its hello: %w", err)
	}
}

// read converts messages to events until the pipe ends. Messages that have arrived together are delivered together.
func (p *Process) read() {
	defer func() {
		if p.measurer != nil {
			p.measurer.Close()
		}
		<-p.ended
		p.from.Close()
		close(p.events)
	}()

	var batch []Event
	for {
		line, err := p.lines.next()
		if _, isGarbage := errors.AsType[*garbage](err); err != nil && !isGarbage {
			break
		}

		var ev *Event
		if err == nil {
			ev, err = p.event(line)
		}
		if err != nil {
			p.Kill("it broke the protocol: " + err.Error())
			p.events <- append(batch, Event{Garbage: err.Error()})
			return
		}

		if ev != nil {
			batch = append(batch, *ev)
		}
		if len(batch) > 0 && (len(batch) == maxBatch || !p.lines.more()) {
			p.events <- batch
			batch = nil
		}
	}
	if len(batch) > 0 {
		p.events <- batch
	}

	// The pipe has ended. A process that exits needs time to release its device. One that only closed the pipe is
	// killed.
	timer := time.AfterFunc(closedGrace, func() { p.Kill("it closed its pipe") })
	<-p.ended
	timer.Stop()
}

// maxBatch is the maximum number of events delivered together.
const maxBatch = 64

// event returns the event of a message. It returns nil for messages that the process handles itself.
func (p *Process) event(line []byte) (*Event, error) {
	env, err := openEnvelope(line)
	if err != nil {
		return nil, err
	}
	switch {
	case env.Type == TypeAsk:
		return nil, p.answer(line)
	case env.Type == TypeMeasure && p.measurer != nil:
		waits, err := p.measurer.Receive(line)
		if err != nil || !waits {
			return nil, err
		}
		p.waits++
		return &Event{Wait: p.waits}, nil
	}
	ev, err := parseEvent(env, line)
	return &ev, err
}

// parseEvent decodes one message that a worker sent after its hello.
func parseEvent(env envelope, line []byte) (ev Event, err error) {
	switch env.Type {
	case TypeStart, TypeRows, TypeResult, TypeError:
		if env.Seq == nil {
			return ev, &garbage{"a " + env.Type + " without a seq: " + excerpt(line)}
		}
	}

	var to any
	switch env.Type {
	case TypeStart:
		to = &ev.Start
	case TypeRows:
		to = &ev.Rows
	case TypeResult:
		to = &ev.Result
	case TypeError:
		to = &ev.Error
	case TypeLog:
		to = &ev.Log
	case TypeCode:
		to = &ev.Code
	case TypeBye:
		to = &ev.Bye
	default:
		return ev, &garbage{fmt.Sprintf("a message of type %q", env.Type)}
	}

	err = decodeMessage(line, to)
	if r := ev.Result; err == nil && r != nil && (r.Seconds < 0 || r.Seconds > 1e9) {
		err = &garbage{fmt.Sprintf("a result that took %g seconds", r.Seconds)}
	}
	return ev, err
}

// Events delivers the worker's messages. It is closed when the process has ended and all its messages were delivered.
func (p *Process) Events() <-chan []Event { return p.events }

// Exit waits for the end of the process and returns how it ended.
func (p *Process) Exit() Exit { <-p.ended; return p.exit }

// Pid returns the process id of the worker, which is that of this process for a worker inside it.
func (p *Process) Pid() int {
	if p.tree == nil {
		return os.Getpid()
	}

	return p.tree.Pid
}

// RSS returns the memory that the process uses, in bytes. It is 0 if unknown, and for workers
// inside this process.
func (p *Process) RSS() int64 {
	if p.tree == nil {
		return 0
	}

	return proc.RSS(p.tree.Pid)
}

// Send sends the worker a case.
func (p *Process) Send(c Case) error {
	c.Type = TypeCase
	return p.send(c)
}

// Configure sends the worker other settings. It must not hold a case.
func (p *Process) Configure(c Configure) error { c.Type = TypeConfigure; return p.send(c) }

// Shutdown asks the worker to end after its cases.
func (p *Process) Shutdown() error {
	return p.send(map[string]string{"type": TypeShutdown})
}

// outboxSize is the maximum number of messages that wait for a worker.
const outboxSize = 4096

// send queues a message. It never blocks, because a worker that hangs must not delay the
// others. It returns an error if the queue is full.
func (p *Process) send(msg any) error {
	line, err := encodeLine(msg)
	if err != nil {
		return err
	}

	select {
	case p.outbox <- line:
		return nil
	default:
		return fmt.Errorf("worker %s does not read its messages", p.spec.Init.Slot)
	}
}

// write writes queued messages to the pipe. It does not report a broken pipe, because read sees the end of the process.
func (p *Process) write() {
	to := bufio.NewWriterSize(p.to, 64<<10)
	for {
		select {
		case line := <-p.outbox:
			_, err := to.Write(line)
			if err == nil && len(p.outbox) == 0 {
				err = to.Flush()
			}
			if err != nil {
				return
			}
		case <-p.exited:
			return
		}
	}
}

// closedGrace is how long a process may outlive its pipe, and how long its pipes are read
// after its end if a descendant keeps them open.
const closedGrace = 10 * time.Second

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
