package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cuts are power cuts. The trial's folder is a file system in an image. At a
// random moment the image is cloned, which is atomic: the clone has what had
// reached the device and nothing of what the kernel still held in memory. The
// clone is mounted in the image's place, and the run goes on from there, on a
// host that has been started since. What the run had said is measured or written
// has to be there.
func cuts() []*fault {
	var out []*fault
	// Cases take longer, so that a cut falls between them.
	slow := &scene{name: "slow", plan: strings.Replace(thePlan, `"delay_ms" { values = [4] }`, `"delay_ms" { values = [60] }`, 1), digest: plain().digest}
	for _, c := range formats {
		out = append(out, &fault{name: "power cut: " + c.name, do: func(t *trial) { t.with(slow, func(t *trial) { t.cut(c.make, c.size) }) }})
	}
	return out
}

var formats = []struct {
	name, size string
	make       []string
}{
	{"ext4", "64M", []string{"mkfs.ext4", "-q", "-F"}},
	{"xfs", "320M", []string{"mkfs.xfs", "-q", "-f"}},
	{"btrfs", "160M", []string{"mkfs.btrfs", "-q", "-f"}},
}

// disks is the file system that can clone images.
type disks struct {
	once sync.Once
	dir  string
	why  string
}

// ready mounts it once, or says why it cannot.
func (d *disks) ready(b *bench) string {
	d.once.Do(func() {
		image := filepath.Join(b.home, "disks.img")
		d.dir = filepath.Join(b.home, "disks")
		if err := os.MkdirAll(d.dir, 0o755); err != nil {
			d.why = err.Error()
			return
		}
		for _, args := range [][]string{
			{"truncate", "-s", "3G", image},
			{"mkfs.xfs", "-q", "-f", "-m", "reflink=1", image},
			{"mount", "-o", "loop", image, d.dir},
		} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				d.why = fmt.Sprintf("%s: %v %s", args[0], err, clip(string(out)))
				d.dir = ""
				return
			}
		}
	})
	return d.why
}

func (d *disks) close() {
	if d.dir != "" {
		_ = exec.Command("umount", "-l", d.dir).Run()
	}
}

// told is how many rows a run with -json said to have measured.
var told = regexp.MustCompile(`"before":0,"done":(\d+),`)

func (t *trial) cut(format []string, size string) {
	image, clone, why := t.onDisk(format, size)
	if why != "" {
		t.note = "not here: " + why
		return
	}
	host := t.host("restarted", t.dir)
	r := t.launch(t.command(t.words("-json")...))
	switch t.random.IntN(3) {
	case 0:
		r.afterJournal()
	case 1: // among the stages after the cases
		r.journalled(t.scene.journal)
		share := 9 + t.random.IntN(14)
		r.until(func() bool { return strings.Count(r.out.String(), "\n") >= share })
	case 2:
		n := t.random.IntN(cases)
		r.until(func() bool { return t.said(r) >= n })
	}
	// What was said until now has to be in the clone.
	said, text := t.said(r), r.out.String()
	err := reflink(image, clone)
	r.signal(syscall.SIGKILL, true)
	r.wait()
	if err != nil {
		t.wrong("the image cannot be cloned: %v", err)
		return
	}
	if !t.restart(clone) {
		return
	}
	if n := t.acknowledged(); n < said {
		t.lost = said - n
		t.wrong("%d rows were said to be measured, %d are there after the cut", said, n)
	}
	for _, name := range []string{"export.csv", "export.parquet"} {
		file := map[string]string{"export.csv": "g_perf.txt", "export.parquet": "g_perf.parquet"}[name]
		if info, err := os.Stat(filepath.Join(t.dir, "out", file)); strings.Contains(text, `"@message":"`+name+": ok") && (err != nil || info.Size() == 0) {
			t.wrong("%s was said to be written, and %s is not there whole after the cut", name, file)
		}
	}
	// The machine was started since: its mark is that of another boot.
	if out, code := host.run("ckpt", "gc"); code == busy {
		t.note = "unlocked"
		if out, code := host.run("unlock"); code != 0 {
			t.wrong("unlock ends with %d: %s", code, clip(out))
		}
	} else if code != 0 {
		t.wrong("gc after the cut ends with %d: %s", code, clip(out))
	}
	lost := t.lost
	t.recover(false)
	t.lost += lost
}

// onDisk puts the trial's folder on a file system of its own, and names the image
// and where a clone of it may lie; or it says why it cannot.
func (t *trial) onDisk(format []string, size string) (image, clone, why string) {
	if why := t.disks.ready(t.bench); why != "" {
		return "", "", why
	}
	if _, err := exec.LookPath(format[0]); err != nil {
		return "", "", format[0] + " is not installed"
	}
	image, clone = filepath.Join(t.disks.dir, filepath.Base(t.dir)+".img"), filepath.Join(t.disks.dir, filepath.Base(t.dir)+".cut")
	t.tidy = append(t.tidy, func() {
		_, _ = t.tool("umount", "-l", t.dir)
		os.Remove(image)
		os.Remove(clone)
	})
	for _, args := range [][]string{{"truncate", "-s", size, image}, slices.Concat(format, []string{image}), {"mount", "-o", "loop", image, t.dir}} {
		if out, err := t.tool(args...); err != nil {
			return "", "", args[0] + ": " + clip(out)
		}
	}
	t.play(t.scene)
	if out, err := t.tool("sync", "-f", t.dir); err != nil {
		t.wrong("sync: %s", out)
	}
	return image, clone, ""
}

// restart mounts the clone where the image was. Both steps may have to wait:
// workers that were killed with the engine hold the folder for a moment, and a host
// of another trial that was started meanwhile holds a copy of all mounts, so that
// the image stays in use, and its clone has the UUID of a file system in use.
func (t *trial) restart(clone string) bool {
	for _, args := range [][]string{{"umount", t.dir}, {"mount", "-o", "loop", clone, t.dir}} {
		out, err := t.tool(args...)
		for begin := time.Now(); err != nil && time.Since(begin) < t.patience(); out, err = t.tool(args...) {
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			t.wrong("%s: %v: %s", args[0], err, clip(out))
			return false
		}
	}
	return true
}

// cutsLose shows that a cut loses what was not synced, and keeps what was.
func cutsLose(t *trial) {
	image, clone, why := t.onDisk(formats[0].make, formats[0].size)
	if why != "" {
		t.note = "not here: " + why
		return
	}
	t.write("synced", "synced")
	if out, err := t.tool("sync", "-f", t.dir); err != nil {
		t.wrong("sync: %s", out)
	}
	t.write("unsynced", "unsynced")
	if err := reflink(image, clone); err != nil {
		t.wrong("the image cannot be cloned: %v", err)
		return
	}
	if !t.restart(clone) {
		return
	}
	if data, err := os.ReadFile(filepath.Join(t.dir, "unsynced")); err == nil && len(data) > 0 {
		t.wrong("what was not synced was not lost")
	}
	if data := t.read("synced"); data != "synced" {
		t.wrong("what was synced was lost")
	}
	t.sameBytes = true
}

// said is how many rows the run has said to have measured.
func (t *trial) said(r *running) int {
	all := told.FindAllStringSubmatch(r.out.String(), -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1][1])
	return n
}

// reflink clones a file at once.
func reflink(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())), dst.Close())
}
