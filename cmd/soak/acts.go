package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// scenes are the faults of runs that do more than the plain one.
func scenes() []*fault {
	var out []*fault
	own, asked, tasks := server(), endpoint(), jobs()
	for _, s := range []*scene{release(), python(), own, asked, tasks} {
		out = append(out,
			&fault{name: "SIGKILL group [" + s.name + "]", do: played(s, syscall.SIGKILL, true)},
			&fault{name: "SIGKILL engine [" + s.name + "]", do: played(s, syscall.SIGKILL, false)},
			&fault{name: "SIGTERM engine [" + s.name + "]", do: played(s, syscall.SIGTERM, false), long: true},
			&fault{name: "SIGINT group twice [" + s.name + "]", do: played(s, syscall.SIGINT, true, syscall.SIGINT), long: true},
		)
	}
	return append(out,
		&fault{name: "SIGKILL the server that is asked [endpoint]", do: func(t *trial) { t.with(asked, serverDies) }},
		&fault{name: "SIGKILL the server that was started [server]", do: func(t *trial) { t.with(own, childDies) }},
		&fault{name: "SIGKILL tasks of jobs [executor]", do: func(t *trial) { t.with(tasks, tasksDie) }},
	)
}

// with plays another scene, or says why it cannot.
func (t *trial) with(s *scene, do func(*trial)) {
	if err := s.rehearse(t.bench); err != nil {
		t.wrong("%v", err)
		return
	}
	if s.missing != "" {
		t.note = "not here: " + s.missing
		return
	}
	t.play(s)
	do(t)
}

func played(s *scene, sig syscall.Signal, group bool, more ...syscall.Signal) func(*trial) {
	return func(t *trial) { t.with(s, signalled(sig, group, more...)) }
}

// serverDies takes the server away from under the load. Requests fail then; when
// it is back, what failed is measured on demand.
func serverDies(t *trial) {
	address := ""
	for _, e := range t.env {
		if url, ok := strings.CutPrefix(e, "AICPLAN_VAR_url="); ok {
			address = url
		}
	}
	r := t.start(t.words()...)
	r.afterJournal()
	t.clean()
	if code := r.wait(); code < 0 || code == 2 {
		t.wrong("without its server apply ends with %d: %s", code, clip(r.out.String()))
	}
	t.serveModel(address)
	t.acked = t.acknowledged()
	before := t.rows()
	if out, code := t.status(t.words("-retry", "failed")...); code != 0 {
		t.wrong("with its server back apply ends with %d: %s", code, clip(out))
	}
	if t.lost = t.again(before); t.lost > 0 {
		t.wrong("%d acknowledged rows were measured again", t.lost)
	}
	t.settle()
	t.whole()
}

// childDies kills the server that the run itself started.
func childDies(t *trial) {
	r := t.start(t.words()...)
	r.writing()
	killed := t.kill("mock-server")
	if code := r.wait(); code < 0 || code == 2 {
		t.wrong("when its server is killed apply ends with %d: %s", code, clip(r.out.String()))
	}
	t.note = fmt.Sprintf("%d killed", killed)
	for range 3 {
		if _, code := t.status(t.words("-retry", "failed")...); code == 0 {
			break
		}
	}
	t.acked = t.acknowledged()
	t.settle()
	t.whole()
}

// tasksDie kills the processes of jobs. The scheduler sees them fail, and the run
// asks for them again.
func tasksDie(t *trial) {
	r := t.start(t.words()...)
	r.afterJournal()
	t.note = fmt.Sprintf("%d tasks killed", t.kill("task"))
	if code := r.wait(); code < 0 || code == 2 {
		t.wrong("when its tasks are killed apply ends with %d: %s", code, clip(r.out.String()))
	}
	t.recover(false)
}

// kill ends the processes of the trial whose command line has a word.
func (t *trial) kill(word string) (n int) {
	for _, p := range t.processes() {
		if slices.Contains(p.words, word) && syscall.Kill(p.pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

type process struct {
	pid   int
	words []string
}

// processes are those that work in the trial's folder.
func (t *trial) processes() []process {
	var out []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
		if err != nil || cwd != t.dir && !strings.HasPrefix(cwd, t.dir+"/") {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		out = append(out, process{pid: pid, words: strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")})
	}
	return out
}

// leftovers holds that no process outlives the trial. Those that still end get
// their time.
func (t *trial) leftovers() {
	var left []process
	for begin := time.Now(); time.Since(begin) < t.patience(); time.Sleep(20 * time.Millisecond) {
		if left = t.processes(); len(left) == 0 {
			return
		}
	}
	for _, p := range left {
		t.wrong("process %d is left: %s", p.pid, strings.Join(p.words, " "))
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
}
