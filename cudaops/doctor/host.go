package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"aicplan/sink/base/proc"
)

const (
	gb         = 1 << 30
	otherPlace = "choose other folders with --state-dir and --out-dir"
)

// room returns the free space of a file system in GB, and its type.
func room(dir string) (free float64, kind int64, err error) {
	var st syscall.Statfs_t
	err = syscall.Statfs(dir, &st)
	return float64(st.Bavail) * float64(st.Bsize) / gb, int64(st.Type), err
}

// enough passes if an amount is at least the limit min_gb.
func enough(amount float64, l Limits, fix, text string) Finding {
	if limit := l.number("min_gb"); amount < limit {
		return fail(fix, text+", %.4g GB required", amount, limit)
	}
	return pass(text, amount)
}

// networkFS are the magic numbers of statfs(2).
var networkFS = map[int64]string{
	0x6969: "NFS", 0xFF534D42: "CIFS", 0xFE534D42: "SMB2", 0x0BD00BD0: "Lustre", 0x47504653: "GPFS",
	0x65735546: "FUSE", 0x00C36400: "Ceph",
}

// folders returns the folders that a run writes to, or their nearest existing parents.
func (n *Node) folders() []string {
	var out []string
	for _, dir := range n.Folders {
		for _, err := os.Stat(dir); err != nil && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
			dir = filepath.Dir(dir)
		}
		out = append(out, dir)
	}
	return slices.Compact(out) // one folder may contain both
}

func lookDisk(n *Node, l Limits) []Finding {
	var out []Finding
	for _, dir := range n.folders() {
		free, kind, err := room(dir)
		if err != nil {
			out = append(out, fail(otherPlace, "%s cannot be looked at: %v", dir, err))
			continue
		}

		f := enough(free, l, "free some space, or "+otherPlace, "%.1f GB free at "+strings.ReplaceAll(dir, "%", "%%"))
		if name, network := networkFS[kind]; network {
			f.Message += " (network file system " + name + ": safe, but each durable batch of rows waits for it)"
		}
		out = append(out, f)
	}

	return out
}

func lookMemory(_ *Node, l Limits) []Finding {
	free, err := proc.MemAvailable()
	if err != nil {
		return []Finding{skip(err)}
	}
	return []Finding{enough(float64(free)/gb, l, "end other programs", "%.1f GB available")}
}

func lookShm(_ *Node, l Limits) []Finding {
	free, _, err := room("/dev/shm")
	if err != nil {
		return []Finding{skip(fmt.Errorf("/dev/shm: %w", err))}
	}
	return []Finding{
		enough(free, l, "start the container with a larger --shm-size, or --ipc=host", "%.1f GB free in /dev/shm"),
	}
}

func lookLoad(_ *Node, l Limits) []Finding {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return []Finding{skip(err)}
	}

	one, err := strconv.ParseFloat(strings.Fields(string(data))[0], 64)
	if err != nil {
		return []Finding{skip(err)}
	}

	perCore := one / float64(runtime.NumCPU())
	if limit := l.number("max_per_core"); perCore > limit {
		return []Finding{fail("wait for it, or end it",
			"load %.2f per core, at most %.4g allowed: other work disturbs the measurements", perCore, limit)}
	}
	return []Finding{pass("load %.2f per core", perCore)}
}

func lookWritable(n *Node, _ Limits) []Finding {
	var out []Finding
	for _, dir := range n.folders() {
		f, err := os.CreateTemp(dir, ".aicplan-preflight-*")
		if err != nil {
			out = append(out, fail(otherPlace, "%s cannot be written: %v", dir, err))
			continue
		}

		f.Close()
		if err := os.Remove(f.Name()); err != nil {
			out = append(out, fail("", "%s: %v", f.Name(), err))
			continue
		}
		out = append(out, pass("%s is writable", dir))
	}

	return out
}
