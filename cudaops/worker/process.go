package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"aicplan/sink/base/proc"
	"aicplan/sink/base/textutil"
)

// Spec describes how to start a worker process.
type Spec struct {
	// Inside creates the host of a worker that runs in this process. Path, Args and Env
	// are then ignored. Nil starts a process.
	Inside func(Init) (Host, error)
	Path   string   // the executable
	Args   []string // with argv[0]; nil means Path alone
	Env    []string // "NAME=value", added to the engine's environment
	// Init is the first message. Type and Protocol are set by Launch.
	Init Init
	// LogPath is the file to which stdout and stderr are appended; "" drops them. LogLimit
	// bounds the file in bytes; 0 means DefaultLogLimit.
	LogPath  string
	LogLimit int64
	// Answer answers the questions of the worker. Nil answers each with an error.
	Answer func(Question) (Answer, error)
	// Instrument creates the receiver of the worker's measure messages after the hello. send
	// sends one to the worker. If Instrument is nil, such messages are errors.
	Instrument func(send func(msg any) error) Measurer
	// Secrets are removed from all messages and output of the worker.
	Secrets *textutil.Secrets
	// HelloTimeout is how long a start may take; 0 means DefaultHelloTimeout.
	HelloTimeout time.Duration
	// SlowStart is the time after which a start is logged as slow; 0 means DefaultSlowStart.
	// StartHelp is a sentence without a full stop on what the user can do about it.
	SlowStart time.Duration
	StartHelp string
	// Log receives the lines that the worker logs before its hello, and a warning if its start
	// is slow. It is called before Launch returns. Nil drops the lines.
	Log func(level, text string)
}

// Measurer receives the measure messages of one worker.
type Measurer interface {
	// Receive processes a message, which is valid until it returns. It does not block. waits is
	// true if the worker now waits for the instrument; then no deadline applies until its next
	// start. An error means that the message is invalid.
	Receive(line []byte) (waits bool, err error)
	// Given reports how many cases the engine has given the worker that it has not begun. wait is the number, from 1,
	// of the last wait that the engine has processed, and all results before it with it.
	Given(wait, cases int)
	// Close is called when the worker has ended.
	Close()
}

// DefaultHelloTimeout is long enough for a framework to import and compile.
const DefaultHelloTimeout = 5 * time.Minute

// Event is one message of a worker. Exactly one field is set.
type Event struct {
	Start  *Start
	Rows   *Rows
	Result *CaseResult
	Error  *Error
	Log    *Log
	Code   *Code
	Bye    *Bye
	// Wait is the number, from 1, of a wait of the worker for the instrument of its device.
	Wait int
	// Garbage describes an invalid message. It is the last event of its process, which is
	// killed.
	Garbage string
}

// Exit describes how a process ended.
type Exit struct {
	Exception string // "SIGSEGV", "exit status 3"
	Tail      string // end of its output
	Orphans   bool   // processes that it had started were killed
}

// StartFailure is the error of a worker that did not start.
type StartFailure struct {
	Slot    string
	Failure Failure
	Tail    string // end of its output
	LogPath string
	// Reported is true if the worker reported the reason in its hello.
	Reported bool
	// Late is true if the worker was running and sent no hello in time.
	Late bool
}

func (e *StartFailure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "worker %s did not start: %s", e.Slot, e.Failure.Message)
	if tail := strings.TrimSpace(lastLines(e.Tail, 12)); tail != "" {
		fmt.Fprintf(&b, "\nits last output:\n  %s", strings.ReplaceAll(tail, "\n", "\n  "))
	}

	if e.LogPath != "" {
		fmt.Fprintf(&b, "\nfull log: %s", e.LogPath)
	}

	return b.String()
}

// Process is a running worker. Its methods are safe for concurrent use.
type Process struct {
	Hello  Hello
	spec   Spec
	tree   *proc.Tree         // nil for a worker inside this process
	cancel context.CancelFunc // of a worker inside this process, otherwise nil
	log    *logFile
	to     *os.File
	from   *os.File
	lines  *lineReader
	outbox chan []byte
	events chan []Event
	exited chan struct{} // closed when the process has ended
	ended  chan struct{} // closed when exit is set
	exit   Exit

	measurer Measurer // nil without an instrument
	waits    int      // for it

	mu     sync.Mutex
	killed string // reason for killing it, for the log
}

// Launch starts a worker and waits for its hello. The error is a *StartFailure if the worker started and failed, and
// another error if it could not be run. If ctx ends, the process is killed, before and after its hello.
func Launch(ctx context.Context, spec Spec) (*Process, error) {
	p, err := spawn(spec)
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", spec.Init.Slot, err)
	}

	stop := context.AfterFunc(ctx, func() { p.Kill("the run was cancelled") })
	go func() {
		<-p.ended
		stop()
	}()

	err, late := p.awaitHello()
	if err == nil && p.Hello.Error == nil {
		if spec.Instrument != nil {
			p.measurer = spec.Instrument(p.send)
		}
		go p.read()
		return p, nil
	}

	p.Kill("it did not start")
	<-p.ended
	p.from.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}

	f := &StartFailure{Slot: spec.Init.Slot, Tail: p.exit.Tail, LogPath: spec.LogPath, Late: late}
	if p.Hello.Error != nil {
		f.Failure, f.Reported = *p.Hello.Error, true
		return nil, f
	}

	f.Failure = Failure{Class: ClassCollectorBug, Exception: p.exit.Exception, Message: err.Error()}
	if late {
		f.Failure.Class = ClassTimeout
	}
	return nil, f
}

// DefaultSlowStart is longer than frameworks take to import from a local disk.
const DefaultSlowStart = 45 * time.Second

// awaitHello waits for the hello. It logs a slow start once. After the timeout, it kills the process and returns true.
func (p *Process) awaitHello() (err error, late bool) {
	timeout := cmp.Or(p.spec.HelloTimeout, DefaultHelloTimeout)
	slowAfter := cmp.Or(p.spec.SlowStart, DefaultSlowStart)
	help := ""
	if p.spec.StartHelp != "" {
		help = "; " + p.spec.StartHelp
	}

	greeted := make(chan error, 1)
	go func() { greeted <- p.greet() }()
	slow, over := time.After(slowAfter), time.After(timeout)
	for {
		select {
		case err := <-greeted:
			return err, false
		case <-slow:
			last := ""
			if line := textutil.OneLine(lastLines(p.log.lastLines(), 1)); line != "" {
				last = "; it printed last: " + textutil.Clip(line, 200)
			}
			p.logStart("warn", fmt.Sprintf("slow start: not ready after %v, and waited for up to %v (%s)%s%s", slowAfter,
				timeout, p.describe(), help, last))
		case <-over:
			p.Quit("no hello in time")
			<-greeted
			return fmt.Errorf("it sent no hello within %v%s", timeout, help), true
		}
	}
}

// describe returns the process id and the command for messages.
func (p *Process) describe() string {
	if p.spec.Inside != nil {
		return "it is a part of this process"
	}
	command := cmp.Or(strings.Join(p.spec.Args, " "), p.spec.Path)
	return fmt.Sprintf("process %d: %s", p.Pid(), textutil.Clip(textutil.OneLine(command), 100))
}

// logStart logs a line about the start.
func (p *Process) logStart(level, text string) {
	if p.spec.Log != nil {
		p.spec.Log(level, p.spec.Secrets.String(text))
	}
}

// spawn starts the worker and the goroutines that serve it.
func spawn(spec Spec) (p *Process, err error) {
	var files []*os.File
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
			files = append(files, r, w)
		}
		return r, w
	}
	childIn, to := pipe()
	from, childOut := pipe()
	logR, logW := pipe()
	defer func() {
		for _, f := range files {
			if err != nil && f != nil {
				f.Close()
			}
		}
	}()
	if err != nil {
		return nil, err
	}

	log, err := openLog(spec.LogPath, spec.LogLimit, fmt.Sprintf("worker %s starts %s", spec.Init.Slot,
		time.Now().UTC().Format(time.RFC3339)))
	if err != nil {
		return nil, err
	}

	log.secrets = spec.Secrets
	p = &Process{
		spec: spec, log: log, to: to, from: from, lines: newLineReader(from, MaxLine),
		outbox: make(chan []byte, outboxSize), events: make(chan []Event, 4),
		exited: make(chan struct{}), ended: make(chan struct{}),
	}
	p.lines.secrets = spec.Secrets

	if spec.Inside != nil {
		p.startInside(childIn, childOut, logW)
	} else if err = p.startProcess(childIn, childOut, logW); err != nil {
		close(log.done)
		log.close("it could not be run: " + err.Error())
		return nil, err
	}
	go log.drain(logR)
	go p.write()
	go p.await(logR)
	return p, nil
}

// startProcess starts a process with its ends of the pipes, which it closes here.
func (p *Process) startProcess(in, out, log *os.File) (err error) {
	cmd := exec.Command(p.spec.Path)
	if p.spec.Args != nil {
		cmd.Args = p.spec.Args
	}
	// Plan variables may be secret.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AICPLAN_VAR_") })
	cmd.Env = append(append(cmd.Env, p.spec.Env...), EnvFDIn+"=3", EnvFDOut+"=4")
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.Stdout, cmd.Stderr = log, log

	if p.tree, err = proc.Start(cmd); err != nil {
		return err
	}
	in.Close()
	out.Close()
	log.Close()
	proc.NoCoreDumps(p.tree.Pid)
	return nil
}

// startInside starts a worker as a goroutine of this process, with the same protocol over pipes. It is for hosts
// without a device and native code, for which a process would only cost memory and time. A host that ignores its
// context cannot be killed.
func (p *Process) startInside(in, out, log *os.File) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		err := ServeOn(ctx, in, out, p.spec.Inside)
		cancel()
		p.mu.Lock()
		if err != nil && p.killed == "" {
			p.exit.Exception = "an error"
			fmt.Fprintln(log, err)
		}
		p.mu.Unlock()
		in.Close()
		out.Close()
		log.Close()
		close(p.exited)
	}()
}

// await waits for the end of the process, kills what it left, and reads the rest of its output.
func (p *Process) await(logR *os.File) {
	if p.tree != nil {
		<-p.tree.Done()
		// A process that outlives the worker and uses memory of the device would disturb the next worker.
		p.exit.Orphans = p.tree.Kill() > 0
		p.exit.Exception = p.tree.Exit()
		close(p.exited)
	}
	<-p.exited

	for _, f := range []*os.File{p.from, logR} {
		_ = f.SetReadDeadline(time.Now().Add(closedGrace)) // a pipe has deadlines
	}
	p.to.Close()
	<-p.log.done
	logR.Close()

	p.exit.Tail = p.log.lastLines()
	how := p.exit.Exception
	p.mu.Lock()
	if p.killed != "" {
		how = p.killed + " (" + how + ")"
		p.exit.Exception = cmp.Or(p.exit.Exception, p.killed)
	}
	p.mu.Unlock()
	p.log.close("worker " + p.spec.Init.Slot + " ended: " + p.spec.Secrets.String(cmp.Or(how, "it returned")))
	close(p.ended)
}

// Kill kills the process and everything it started. It does not wait for the end.
func (p *Process) Kill(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed != "" || p.gone() {
		return
	}

	p.killed = "killed: " + why
	if p.cancel != nil {
		p.cancel()
		return
	}

	p.tree.Kill()
}

// gone reports whether the process has ended.
func (p *Process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// quitGrace is how long a hanging worker has to print its stacks.
const quitGrace = time.Second

// Quit is Kill for a process that hangs. It sends SIGQUIT first, upon which Go and many
// frameworks print their stacks into the log. It does not wait for the end.
func (p *Process) Quit(why string) {
	if p.cancel != nil {
		p.Kill(why)
		return
	}

	if !p.gone() {
		_ = syscall.Kill(p.tree.Pid, syscall.SIGQUIT) // it may end at the same moment
	}

	timer := time.AfterFunc(quitGrace, func() { p.Kill(why) })
	go func() {
		<-p.ended
		timer.Stop()
	}()
}

// bridge connects the worker's descriptors 3 and 4 to standard input and output of the
// command, because launchers pass on no others.
const bridge = `exec "$@" <&3 >&4 3<&- 4>&-`

// Through returns the program and its arguments, starting with its name, that start a
// worker through a launcher such as docker run or srun. The worker then uses its standard
// input and output for the protocol, which the flags --fd-in and --fd-out after its command
// request, and must print to standard error. The element {image} of the launcher is replaced
// by the image, which otherwise follows the launcher. The launcher must make the files of the
// command available under the same paths and keep standard input open (docker run -i).
func Through(launcher []string, image string, command []string) (path string, args []string, err error) {
	if len(launcher) == 0 {
		return "", nil, errors.New("the launcher is empty")
	}

	program, err := exec.LookPath(launcher[0])
	if err != nil {
		return "", nil, fmt.Errorf("launcher: %w", err)
	}

	args = []string{"/bin/sh", "-c", bridge, "aicplan-launch", program}
	named := false
	for _, a := range launcher[1:] {
		if strings.Contains(a, "{image}") {
			if image == "" {
				return "", nil, errors.New("the launcher contains {image} and the runtime names no image")
			}

			a, named = strings.ReplaceAll(a, "{image}", image), true
		}

		args = append(args, a)
	}

	if image != "" && !named {
		args = append(args, image)
	}

	args = append(args, command...)
	return args[0], append(args, "--fd-in", "0", "--fd-out", "1"), nil
}
