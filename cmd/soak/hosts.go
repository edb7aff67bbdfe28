package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// hosts are the faults of two machines that share a folder. A host is a set of
// namespaces: it has a name, processes and a boot id of its own, and sees the
// folder through a mount of its own, whose locks do not reach the other and which
// remembers names and sizes for a moment. NFS without locks is like that.
func hosts() []*fault {
	return []*fault{
		{name: "two hosts: applies at once", do: twoHosts},
		{name: "two hosts: gc of the second during an apply", do: gcElsewhere},
		{name: "two hosts: the first is gone, unlock on the second", do: hostGone},
		{name: "two hosts on one NFS export", do: func(t *trial) {
			if t.shared == nil {
				t.note = "not here: give two mounts of one export with -shared DIR,DIR; the faults before stand in for it"
				return
			}
			gcElsewhere(t)
		}},
	}
}

// host is a machine as its processes see it.
type host struct {
	*trial
	name, dir, boot string
}

// twoMounts makes two hosts with the trial's folder, or says why it cannot.
func (t *trial) twoMounts() (a, b *host, why string) {
	dirs := t.shared
	if dirs == nil {
		if _, err := exec.LookPath("bindfs"); err != nil {
			return nil, nil, "bindfs is not installed"
		}
		dirs = []string{t.dir + ".a", t.dir + ".b"}
		for _, dir := range dirs {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, nil, err.Error()
			}
			if out, err := t.tool("bindfs", "-o", "attr_timeout=1,entry_timeout=1", t.dir, dir); err != nil {
				return nil, nil, "a folder cannot be mounted twice: " + clip(out)
			}
			t.tidy = append(t.tidy, func() {
				_, _ = t.tool("umount", "-l", dir)
				os.Remove(dir)
			})
		}
	} else {
		sub := filepath.Base(t.dir)
		dirs = []string{filepath.Join(dirs[0], sub), filepath.Join(dirs[1], sub)}
		if err := os.MkdirAll(dirs[0], 0o755); err != nil {
			return nil, nil, err.Error()
		}
		if err := os.WriteFile(filepath.Join(dirs[0], "plan.hcl"), []byte(t.scene.plan), 0o644); err != nil {
			return nil, nil, err.Error()
		}
		t.tidy = append(t.tidy, func() { os.RemoveAll(dirs[0]) })
		t.dir = dirs[0]
	}
	a, b = t.host("first", dirs[0]), t.host("second", dirs[1])
	if out, code := t.sane(a.start("version")); code != 0 {
		return nil, nil, "namespaces cannot be made: " + clip(out)
	}
	return a, b, ""
}

func (t *trial) host(name, dir string) *host {
	boot := filepath.Join(t.home, slug(filepath.Base(t.dir))+"."+name)
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x\n", t.random.Uint32(), t.random.Uint64()>>16)
	if err := os.WriteFile(boot, []byte(id), 0o644); err != nil {
		t.wrong("%v", err)
	}
	return &host{trial: t, name: name, dir: dir, boot: boot}
}

// start runs aicplan on the host.
func (h *host) start(args ...string) *running {
	line := `mount -t proc proc /proc && mount --bind "$1" /proc/sys/kernel/random/boot_id && hostname "$2" && cd "$3" && shift 3 && exec "$@"`
	cmd := h.process(append([]string{"unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", line, "sh", h.boot, h.name, h.dir, h.binary}, args...)...)
	cmd.Dir = h.home
	cmd.Env = append(cmd.Env, "AICPLAN_LOCK_DIR="+h.boot+".locks")
	return h.launch(cmd)
}

// run is a whole command on the host.
func (h *host) run(args ...string) (string, int) { return h.sane(h.start(args...)) }

// both makes the hosts and lets them do something, then recovers on the second.
func (t *trial) both(do func(a, b *host)) {
	a, b, why := t.twoMounts()
	if why != "" {
		t.note = "not here: " + why
		return
	}
	do(a, b)
	t.acked = t.acknowledged()
	out, code := b.run(t.words()...)
	if code == busy && strings.Contains(out, "aicplan unlock") {
		t.note = "unlocked"
		if out, code := b.run("unlock"); code != 0 {
			t.wrong("unlock ends with %d: %s", code, clip(out))
		}
		out, code = b.run(t.words()...)
	}
	if !t.scene.ended(code) {
		t.wrong("apply on the second host ends with %d: %s", code, clip(out))
	}
	t.recover(false)
}

func twoHosts(t *trial) {
	t.both(func(a, b *host) {
		x := a.start(t.words()...)
		if t.random.IntN(2) == 0 {
			x.after()
		}
		y := b.start(t.words()...)
		one, other := x.wait(), y.wait()
		if (one != 0 || other != 0 && other != busy) && (other != 0 || one != busy) {
			t.wrong("the applies end with %d and %d: %s; %s", one, other, clip(x.out.String()+x.err.String()), clip(y.out.String()+y.err.String()))
		}
	})
}

func gcElsewhere(t *trial) {
	t.both(func(a, b *host) {
		r := a.start(t.words()...)
		r.writing()
		for !r.over() {
			if out, code := b.run("ckpt", "gc"); code != 0 && code != busy {
				t.wrong("gc of the second host ends with %d: %s", code, clip(out))
			}
			for _, args := range [][]string{{"plan", "plan.hcl"}, {"ckpt", "list"}, {"status"}} {
				if out, code := b.run(args...); code < 0 || code == 2 {
					t.wrong("%v on the second host ends with %d: %s", args, code, clip(out))
				}
			}
		}
		if code := r.wait(); code != 0 {
			t.wrong("the apply ends with %d: %s", code, clip(r.out.String()+r.err.String()))
		}
	})
}

func hostGone(t *trial) {
	t.both(func(a, b *host) {
		r := a.start(t.words()...)
		r.afterJournal()
		r.signal(syscall.SIGKILL, true)
		r.wait()
	})
}
