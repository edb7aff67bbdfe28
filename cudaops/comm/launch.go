package comm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"aicplan/sink/base/proc"
)

// launched are the processes of a group: one for each rank, or a launcher.
type launched struct {
	// why describes why a rank has ended. It waits up to endGrace.
	why func(rank int) string
	// ended receives how a process has ended while the ranks connect.
	ended <-chan string
	// stop waits until the processes have ended, and kills them after a grace period.
	stop func()
}

// newLaunched watches trees.
func newLaunched(trees []*proc.Tree, why func(rank int) string) *launched {
	ended := make(chan string, len(trees))
	for _, t := range trees {
		go func() {
			<-t.Done()
			ended <- t.Exit()
		}()
	}

	return &launched{why: why, ended: ended, stop: func() {
		grace := time.After(2 * endGrace)
		for _, t := range trees {
			select {
			case <-t.Done():
			case <-grace:
				for _, t := range trees {
					t.Kill()
				}
				return
			}
		}
	}}
}

// launchHere starts one process of this program for each rank.
func launchHere(ranks int, verb string, env []string) (*launched, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}

	var trees []*proc.Tree
	for i := range ranks {
		cmd := exec.Command(exe, verb)
		cmd.Args[0] = "aicplan"
		cmd.Env = append(append(os.Environ(), env...), fmt.Sprint(rankVars[0], "=", i), fmt.Sprint(localVars[0], "=", i))
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // the worker's log
		t, err := proc.Start(cmd)
		if err != nil {
			newLaunched(trees, nil).stop()
			return nil, fmt.Errorf("starting the process of rank %d: %w", i, err)
		}
		trees = append(trees, t)
	}

	return newLaunched(trees, func(rank int) string {
		select {
		case <-trees[rank].Done():
			return trees[rank].Exit()
		case <-time.After(endGrace):
			return "its process is still running"
		}
	}), nil
}

// Srun is the default launcher of ranks on several nodes: one process per GPU, filling one node after the
// other. srun must not end the other ranks if one dies, because it would hide which one failed.
var Srun = []string{
	"srun", "--nodes={nodes}", "--ntasks={ranks}", "--ntasks-per-node={gpus_per_node}", "--distribution=block",
	"--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--input=none", "--overlap",
}

// launchWords replaces the placeholders {nodes}, {gpus_per_node} and {ranks} in a command.
func launchWords(argv []string, nodes, perNode int) []string {
	fill := strings.NewReplacer("{nodes}", strconv.Itoa(nodes), "{gpus_per_node}", strconv.Itoa(perNode), "{ranks}",
		strconv.Itoa(nodes*perNode))
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = fill.Replace(a)
	}
	return out
}

// launchWith starts a launcher, whose arguments are followed by this program and its verb for ranks.
func launchWith(argv []string, verb string, env []string, log io.Writer) (*launched, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}

	words := append(append([]string(nil), argv...), exe, verb)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out := &lastOutput{changed: make(chan struct{}, 1)}
	cmd.Stdout, cmd.Stderr = log, io.MultiWriter(log, out)

	t, err := proc.Start(cmd)
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) || os.IsNotExist(err) {
			err = fmt.Errorf("%w; rank_launcher of the runtime names another command", err)
		}
		return nil, fmt.Errorf("the ranks cannot be started by %s: %w", words[0], err)
	}

	l := newLaunched([]*proc.Tree{t}, func(int) string {
		// Launchers report an ended rank with a delay.
		select {
		case <-t.Done():
		case <-out.changed:
		case <-time.After(endGrace):
		}
		if text := out.lines(); text != "" {
			return text
		}
		return "the launcher does not report why"
	})

	ended := l.ended
	withOutput := make(chan string, 1)
	l.ended = withOutput
	go func() {
		how := <-ended
		withOutput <- strings.Trim(how+": "+out.lines(), ": ")
	}()
	return l, nil
}

// lastOutput keeps the last 2000 bytes that are written to it.
type lastOutput struct {
	mu      sync.Mutex
	tail    []byte
	changed chan struct{} // receives after a write
}

func (l *lastOutput) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, p...)
	l.tail = l.tail[max(0, len(l.tail)-2000):]

	select {
	case l.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

// lines returns the last three lines, separated by slashes.
func (l *lastOutput) lines() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.FieldsFunc(string(bytes.TrimSpace(l.tail)), func(r rune) bool { return r == '\n' })
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}
