package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// fault is one way to hurt a run, and what came of all trials of it.
type fault struct {
	name string
	do   func(t *trial)

	skipped             string // why it cannot be tried here
	tried, survived     int
	lost, same          int
	ackedLow, ackedHigh int
	recoveries          []time.Duration
	notes               map[string]int
	long                bool // it takes long
	once                bool // a second trial shows no more
	none                bool // no run is disturbed: rows and exports say nothing
}

func slug(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
}

func (f *fault) count(t *trial, took time.Duration) {
	if t.note != "" && strings.HasPrefix(t.note, "not here: ") {
		f.skipped = strings.TrimPrefix(t.note, "not here: ")
		return
	}
	if f.tried == 0 || t.acked < f.ackedLow {
		f.ackedLow = t.acked
	}
	f.ackedHigh = max(f.ackedHigh, t.acked)
	f.tried++
	f.lost += t.lost
	if t.sameBytes {
		f.same++
	}
	if t.survived() {
		f.survived++
	}
	if f.none {
		t.recovery = took
	}
	f.recoveries = append(f.recoveries, t.recovery)
	if t.note != "" {
		if f.notes == nil {
			f.notes = map[string]int{}
		}
		f.notes[t.note]++
	}
}

// all are the faults, each as a new one without counts.
func all() []*fault {
	out := []*fault{
		{name: "SIGKILL engine", do: signalled(syscall.SIGKILL, false)},
		{name: "SIGKILL group", do: signalled(syscall.SIGKILL, true)},
		{name: "SIGKILL group at a journal size", do: killedAtJournal},
		{name: "SIGKILL one worker", do: func(t *trial) { killWorkers(t, 1) }},
		{name: "SIGKILL all workers", do: func(t *trial) { killWorkers(t, 100) }},
		{name: "SIGTERM engine", do: signalled(syscall.SIGTERM, false)},
		{name: "SIGINT group", do: signalled(syscall.SIGINT, true)},
		{name: "SIGINT group twice", do: signalled(syscall.SIGINT, true, syscall.SIGINT)},
		{name: "SIGHUP group", do: signalled(syscall.SIGHUP, true)},
		{name: "SIGQUIT engine", do: quit},
		{name: "SIGKILL group five times in a row", do: fiveKills},
		{name: "SIGSTOP a worker, SIGCONT", do: stopWorker},
		{name: "SIGSTOP engine, a second apply, SIGCONT", do: stopEngine},
		{name: "two applies at once", do: twoApplies},
		{name: "readers and gc during an apply", do: readers},
		{name: "-replace killed, then again", do: replaceKilled, none: true},
		{name: "gc killed", do: gcKilled},
		{name: "saved plan, apply FILE killed", do: savedKilled},
		{name: "a file may have so many bytes (RLIMIT_FSIZE)", do: limited("-f", 2, 40)},
		{name: "few descriptors (RLIMIT_NOFILE)", do: limited("-n", 10, 60)},
		{name: "full disk under the state (tmpfs)", do: fullDisk(".aicplan", 8, 120)},
		{name: "full disk under the exports (tmpfs)", do: fullDisk("out", 4, 60)},
		{name: "stdout is closed", do: stdoutClosed},
		{name: "stdout is /dev/full", do: stdoutFull},
		{name: "folder of the state removed during an apply", do: removedFolder, none: true},
		{name: "export changed, removed or replaced by a folder", do: exportHurt},
	}
	out = append(out, scenes()...)
	out = append(out, hosts()...)
	out = append(out, cuts()...)
	out = append(out, heavy()...)
	out = append(out, fakes()...)
	out = append(out, damages()...)
	out = append(out, lies()...)
	out = append(out, mutants()...)
	return append(out, controls()...)
}

// signalled sends signals at a random moment of an apply.
func signalled(sig syscall.Signal, group bool, more ...syscall.Signal) func(*trial) {
	return func(t *trial) {
		r := t.start(t.words()...)
		r.after()
		r.signal(sig, group)
		for _, s := range more {
			select {
			case <-r.done:
			case <-time.After(time.Duration(t.random.IntN(50)) * time.Millisecond):
			}
			r.signal(s, group)
		}
		r.wait()
		t.recover(false)
	}
}

// quit is one whose output is that of a crash: it is not looked at.
func quit(t *trial) {
	r := t.start(t.words()...)
	r.after()
	r.signal(syscall.SIGQUIT, false)
	r.wait()
	t.recover(false)
}

func killedAtJournal(t *trial) {
	r := t.start(t.words()...)
	r.afterJournal()
	r.signal(syscall.SIGKILL, true)
	r.wait()
	t.recover(false)
}

func fiveKills(t *trial) {
	for range 5 {
		r := t.start(t.words()...)
		r.afterJournal()
		r.signal(syscall.SIGKILL, true)
		r.wait()
	}
	t.recover(false)
}

func killWorkers(t *trial, most int) {
	r := t.start(t.words()...)
	r.afterJournal()
	killed := 0
	for _, pid := range r.workers() {
		if killed < most && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if code := r.wait(); code != 0 {
		t.wrong("an apply whose workers were killed ends with %d: %s", code, clip(r.out.String()))
	}
	if killed == 0 {
		t.note = "ended before"
	}
	t.recover(false)
}

func stopWorker(t *trial) {
	r := t.start(t.words()...)
	r.afterJournal()
	stopped := r.workers()
	if len(stopped) > 1 {
		stopped = stopped[:1]
	}
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	time.Sleep(time.Duration(200+t.random.IntN(800)) * time.Millisecond)
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	if code := r.wait(); code != 0 {
		t.wrong("the apply ends with %d: %s", code, clip(r.out.String()))
	}
	t.recover(false)
}

// busy is the exit code of a command that finds another at work.
const busy = 11

func stopEngine(t *trial) {
	r := t.start(t.words()...)
	r.afterJournal()
	r.signal(syscall.SIGSTOP, false)
	over := r.over()
	_, code := t.apply()
	if !over && code != busy && code != 0 {
		t.wrong("an apply beside a stopped one ends with %d", code)
	}
	r.signal(syscall.SIGCONT, false)
	if code := r.wait(); code != 0 {
		t.wrong("the apply that was stopped ends with %d: %s", code, clip(r.out.String()))
	}
	t.recover(false)
}

func twoApplies(t *trial) {
	a := t.start(t.words()...)
	if t.random.IntN(2) == 0 {
		a.after()
	}
	b := t.start(t.words()...)
	x, y := a.wait(), b.wait()
	if (x != 0 || y != 0 && y != busy) && (y != 0 || x != busy) {
		t.wrong("the applies end with %d and %d: %s; %s", x, y, clip(a.out.String()), clip(b.out.String()))
	}
	t.recover(false)
}

func readers(t *trial) {
	r := t.start(t.words()...)
	// Before the apply holds the state folder, gc may hold it: then apply ends
	// with busy, and is right.
	r.writing()
	commands := [][]string{{"plan", "plan.hcl"}, {"ckpt", "list"}, {"ckpt", "gc"}, {"show", "collect.g"}, {"ckpt", "verify"}, {"failures"}}
	for over := false; !over; {
		args := commands[t.random.IntN(len(commands))]
		if _, code := t.status(args...); code < 0 || code == 2 {
			t.wrong("aicplan %s during an apply ends with %d", strings.Join(args, " "), code)
		}
		over = r.over()
	}
	if code := r.wait(); code != 0 {
		t.wrong("the apply ends with %d: %s", code, clip(r.out.String()))
	}
	t.recover(false)
}

// applied is a whole run, before the fault.
func applied(t *trial) {
	if out, code := t.apply(); code != 0 {
		t.wrong("apply ends with %d: %s", code, clip(out))
	}
}

func replaceKilled(t *trial) {
	applied(t)
	r := t.start(t.words("-replace", "collect.g")...)
	r.after()
	r.signal(syscall.SIGKILL, true)
	r.wait()
	// What was withdrawn is measured again on purpose: only the end counts.
	t.settle()
	t.whole()
}

// settle is recover where rows are measured again on purpose.
func (t *trial) settle() {
	for range 3 {
		if _, code := t.apply(); code == 0 {
			break
		}
	}
	if t.sameBytes = t.exports() == t.scene.want; !t.sameBytes {
		t.wrong("the exports differ from those of an undisturbed run")
	}
}

func gcKilled(t *trial) {
	applied(t)
	if out, code := t.status("apply", "-replace", "collect.g", "plan.hcl"); code != 0 {
		t.wrong("apply -replace ends with %d: %s", code, clip(out))
	}
	r := t.start("ckpt", "gc")
	select {
	case <-r.done:
	case <-time.After(time.Duration(t.random.IntN(120)) * time.Millisecond):
	}
	r.signal(syscall.SIGKILL, true)
	r.wait()
	t.recover(false)
	t.status("ckpt", "gc")
	t.recover(false)
}

func savedKilled(t *trial) {
	if out, code := t.status("plan", "-out", "saved.plan", "plan.hcl"); code != 0 {
		t.wrong("plan -out ends with %d: %s", code, clip(out))
	}
	r := t.start("apply", "saved.plan")
	r.after()
	r.signal(syscall.SIGKILL, true)
	r.wait()
	t.recover(false)
}

// limited runs an apply under a limit of the shell.
func limited(flag string, low, high int) func(*trial) {
	return func(t *trial) {
		n := low + t.random.IntN(high-low)
		r := t.startShell(fmt.Sprintf(`ulimit %s %d; exec "$0" apply plan.hcl`, flag, n))
		r.wait()
		t.recover(false)
	}
}

// fullDisk puts a small file system where a folder will be. It needs the right
// to mount.
func fullDisk(name string, low, high int) func(*trial) {
	return func(t *trial) {
		dir := filepath.Join(t.dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.wrong("%v", err)
			return
		}
		size := fmt.Sprintf("size=%dk", low+t.random.IntN(high-low))
		if out, err := t.tool("mount", "-t", "tmpfs", "-o", size, "none", dir); err != nil {
			t.note = "not here: a tmpfs cannot be mounted: " + strings.TrimSpace(out)
			return
		}
		defer t.tool("umount", "-l", dir)
		r := t.start(t.words()...)
		code := r.wait()
		t.note = fmt.Sprintf("exit code %d", code)
		if code < 0 || code == 2 {
			t.wrong("on a full disk apply ends with %d: %s", code, clip(r.out.String()))
		}
		if out, err := t.tool("mount", "-o", "remount,size=64m", dir); err != nil {
			t.wrong("%s", out)
		}
		t.recover(false)
	}
}

func stdoutClosed(t *trial) {
	r := t.startShell(`"$0" apply plan.hcl | head -c 40`)
	r.wait()
	t.recover(false)
}

func stdoutFull(t *trial) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.note = "not here: there is no /dev/full"
		return
	}
	r := t.startShell(`exec "$0" apply plan.hcl > /dev/full`)
	r.wait()
	t.recover(false)
}

// removedFolder takes a part of the state away while an apply works: rows in it
// are gone, the run has to go on or to end with an error, and the next to heal.
func removedFolder(t *trial) {
	name := []string{"journal", "objects", "stages", "runs", ""}[t.random.IntN(5)]
	t.note = strings.Trim(".aicplan/"+name, "/")
	r := t.start(t.words()...)
	r.afterJournal()
	if err := os.RemoveAll(filepath.Join(t.state(), name)); err != nil {
		t.note += ", written to meanwhile"
	}
	if code := r.wait(); code < 0 || code == 2 {
		t.wrong("apply ends with %d: %s", code, clip(r.out.String()))
	}
	t.settle()
}

func exportHurt(t *trial) {
	applied(t)
	path := filepath.Join(t.dir, "out", []string{"g_perf.txt", "g_perf.parquet"}[t.random.IntN(2)])
	var err error
	switch t.random.IntN(2) {
	case 0:
		err = os.WriteFile(path, []byte("other\n"), 0o644)
	case 1:
		err = os.Remove(path)
	}
	if err != nil {
		t.wrong("%v", err)
	}
	t.recover(false)
}
