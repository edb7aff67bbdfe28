package contract

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A fault is one way to disturb a run.
type fault struct {
	name  string
	scene *scene
	do    func(t *trial)
}

// busy is the exit code of a command that finds the state folder locked.
const busy = 11

func faults() []fault {
	var out []fault
	add := func(name string, s *scene, do func(*trial)) { out = append(out, fault{name, s, do}) }

	for _, s := range []*scene{plain, breaker, python} {
		add("SIGKILL engine ["+s.name+"]", s, signalled(syscall.SIGKILL, false))
		add("SIGKILL group ["+s.name+"]", s, signalled(syscall.SIGKILL, true))
		add("SIGTERM engine ["+s.name+"]", s, signalled(syscall.SIGTERM, false))
		add("SIGINT group twice ["+s.name+"]", s, interruptedTwice)
	}

	add("SIGKILL group while measuring, five times", plain, killedRepeatedly)
	add("SIGKILL all workers", plain, workersKilled)
	add("SIGSTOP a worker, SIGCONT", plain, workerStopped)
	add("SIGSTOP engine, second apply, SIGCONT", plain, engineStopped)
	add("two applies at once", plain, twoApplies)
	add("readers and gc during an apply", plain, readers)
	add("gc killed", plain, gcKilled)
	add("apply of a saved plan killed", plain, savedPlanKilled)
	add("file size limit (RLIMIT_FSIZE)", plain, limited("-f", 2, 40))
	add("few descriptors (RLIMIT_NOFILE)", plain, limited("-n", 10, 60))
	add("full disk under the state folder (tmpfs)", plain, fullDisk(".aicplan", 8, 120))
	add("full disk under the exports (tmpfs)", plain, fullDisk("out", 4, 60))
	add("stdout is closed", plain, shell(`"$0" apply plan.hcl | head -c 40`))
	add("stdout is /dev/full", plain, shell(`exec "$0" apply plan.hcl > /dev/full`))
	add("export changed or removed", plain, exportChanged)
	add("noise after the last frame of a journal", plain, noisyTail)
	add("journal cut in its last frame", plain, cutTail)
	add("bits flipped in a journal", plain, flippedBits)
	add("control: journal deleted (must be detected)", plain, journalDeleted)
	return out
}

func signalled(sig syscall.Signal, group bool) func(*trial) {
	return func(t *trial) {
		r := t.start("apply", "plan.hcl")
		r.sleep()
		r.signal(sig, group)
		r.wait()
		t.recover(false)
	}
}

func interruptedTwice(t *trial) {
	r := t.start("apply", "plan.hcl")
	r.sleep()
	r.signal(syscall.SIGINT, true)
	select {
	case <-r.done:
	case <-time.After(time.Duration(t.random.IntN(50)) * time.Millisecond):
	}
	r.signal(syscall.SIGINT, true)
	r.wait()
	t.recover(false)
}

func killedRepeatedly(t *trial) {
	for range 5 {
		r := t.start("apply", "plan.hcl")
		r.measuring()
		r.signal(syscall.SIGKILL, true)
		r.wait()
	}
	t.recover(false)
}

func workersKilled(t *trial) {
	r := t.start("apply", "plan.hcl")
	r.measuring()
	for _, pid := range r.workers() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	t.expect(r, 0)
	t.recover(false)
}

func workerStopped(t *trial) {
	r := t.start("apply", "plan.hcl")
	r.measuring()
	pids := r.workers()
	pids = pids[:min(1, len(pids))]
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}

	time.Sleep(time.Duration(200+t.random.IntN(800)) * time.Millisecond)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}

	t.expect(r, 0)
	t.recover(false)
}

func engineStopped(t *trial) {
	r := t.start("apply", "plan.hcl")
	r.measuring()
	r.signal(syscall.SIGSTOP, false)
	if _, code := t.apply(); code != busy && code != 0 {
		t.Errorf("an apply beside a stopped one exits with %d", code)
	}
	r.signal(syscall.SIGCONT, false)
	t.expect(r, 0)
	t.recover(false)
}

func twoApplies(t *trial) {
	a := t.start("apply", "plan.hcl")
	if t.random.IntN(2) == 0 {
		a.sleep()
	}
	b := t.start("apply", "plan.hcl")
	x, y := a.wait(), b.wait()
	if (x != 0 || y != 0 && y != busy) && (y != 0 || x != busy) {
		t.Errorf("the applies exit with %d and %d", x, y)
	}
	t.recover(false)
}

func readers(t *trial) {
	r := t.start("apply", "plan.hcl")
	r.journalled(1) // gc must not take the lock before the apply does
	commands := []string{"plan plan.hcl", "ckpt list", "ckpt gc", "show collect.g", "ckpt verify", "failures"}
	for ended := false; !ended; {
		line := commands[t.random.IntN(len(commands))]
		if _, code := t.run(strings.Fields(line)...); code < 0 || code == 2 {
			t.Errorf("aicplan %s during an apply exits with %d", line, code)
		}
		ended = r.ended()
	}

	t.expect(r, 0)
	t.recover(false)
}

func gcKilled(t *trial) {
	t.must()
	if out, code := t.run("apply", "--replace", "collect.g", "plan.hcl"); code != 0 {
		t.Errorf("apply --replace exits with %d: %s", code, clip(out))
	}

	r := t.start("ckpt", "gc")
	select {
	case <-r.done:
	case <-time.After(time.Duration(t.random.IntN(120)) * time.Millisecond):
	}

	r.signal(syscall.SIGKILL, true)
	r.wait()
	t.recover(false)
	t.run("ckpt", "gc")
	t.recover(false)
}

func savedPlanKilled(t *trial) {
	if out, code := t.run("plan", "--out", "saved.plan", "plan.hcl"); code != 0 {
		t.Errorf("plan --out exits with %d: %s", code, clip(out))
	}
	r := t.start("apply", "saved.plan")
	r.sleep()
	r.signal(syscall.SIGKILL, true)
	r.wait()
	t.recover(false)
}

// limited runs an apply under a limit of the shell.
func limited(flag string, low, high int) func(*trial) {
	return func(t *trial) {
		n := low + t.random.IntN(high-low)
		shell(fmt.Sprintf(`ulimit %s %d; exec "$0" apply plan.hcl`, flag, n))(t)
	}
}

func shell(line string) func(*trial) {
	return func(t *trial) {
		t.begin(t.command("sh", "-c", line, binary)).wait()
		t.recover(false)
	}
}

// fullDisk mounts a small tmpfs on a folder of the trial, which needs root.
func fullDisk(name string, low, high int) func(*trial) {
	return func(t *trial) {
		dir := filepath.Join(t.dir, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}

		size := fmt.Sprintf("size=%dk", low+t.random.IntN(high-low))
		if err := syscall.Mount("none", dir, "tmpfs", 0, size); err != nil {
			t.Skipf("a tmpfs cannot be mounted: %v", err)
		}

		defer syscall.Unmount(dir, syscall.MNT_DETACH)

		r := t.start("apply", "plan.hcl")
		if code := r.wait(); code < 0 || code == 2 {
			t.Errorf("apply on a full disk exits with %d: %s", code, clip(r.out.String()))
		}

		if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
			t.Error(err)
		}

		t.recover(false)
	}
}

func exportChanged(t *trial) {
	t.must()
	name := filepath.Join("out", t.scene.exports[t.random.IntN(len(t.scene.exports))])
	if t.random.IntN(2) == 0 {
		t.write(name, []byte("other\n"))
	} else if err := os.Remove(filepath.Join(t.dir, name)); err != nil {
		t.Error(err)
	}
	t.recover(false)
}

// damagedTail changes the last segment of an interrupted run's journal.
func damagedTail(t *trial, change func(data []byte) []byte) {
	r := t.start("apply", "plan.hcl")
	r.measuring()
	r.signal(syscall.SIGKILL, true)
	r.wait()
	t.changeSegments(change)
}

// noisyTail appends random bytes, as a power failure may leave after an unsynced write.
func noisyTail(t *trial) {
	damagedTail(t, func(data []byte) []byte {
		for range t.random.IntN(300) {
			data = append(data, byte(t.random.Uint32()))
		}
		return data
	})
	t.recover(false)
}

func cutTail(t *trial) {
	damagedTail(t, func(data []byte) []byte { return data[:max(0, len(data)-1-t.random.IntN(40))] })
	t.recover(true)
}

func flippedBits(t *trial) {
	t.must()
	t.changeSegments(func(data []byte) []byte {
		for range 1 + t.random.IntN(4) {
			if len(data) > 0 {
				data[t.random.IntN(len(data))] ^= 1 << t.random.IntN(8)
			}
		}
		return data
	})
	t.recover(true)
}

func (t *trial) changeSegments(change func(data []byte) []byte) {
	for _, path := range t.files(".aicplan/journal") {
		if !strings.HasSuffix(path, ".seg") {
			continue
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(data), fs.FileMode(0o644))
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// journalDeleted shows that the checks detect lost rows.
func journalDeleted(t *trial) {
	t.must()
	for _, dir := range []string{".aicplan/journal", ".aicplan/stages"} {
		if err := os.RemoveAll(filepath.Join(t.dir, dir)); err != nil {
			t.Error(err)
		}
	}
	if out, _ := t.apply(); !strings.Contains(out, fmt.Sprintf("Apply: %d measured", t.scene.cases)) {
		t.Errorf("the deleted rows were not measured again: %s", clip(out))
	}
}

// expect waits for a command and records an error if its exit code differs.
func (t *trial) expect(r *running, want int) {
	if code := r.wait(); code != want {
		t.Errorf("%s exits with %d, want %d: %s", strings.Join(r.cmd.Args[1:], " "), code, want, clip(r.out.String()))
	}
}
