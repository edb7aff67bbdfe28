package preflight

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
)

// HostChecks look at the machine without a GPU.
func HostChecks() []Check {
	return []Check{
		{
			Name: "disk", Summary: "free space for state and exports, and whether they are on a network file system",
			Schema: []hcl.AttributeSchema{
				// min_gb (number, GB) is the smallest accepted amount. The default is 1.
				{Name: "min_gb"},
			}, Look: lookDisk,
		},
		{
			Name: "memory", Summary: "memory that is free on the host",
			Schema: []hcl.AttributeSchema{
				// min_gb (number, GB) is the smallest accepted amount. The default is 1.
				{Name: "min_gb"},
			}, Look: lookMemory,
		},
		{
			Name: "shm", Summary: "room in /dev/shm, which NCCL and the frameworks use",
			Schema: []hcl.AttributeSchema{
				// min_gb (number, GB) is the smallest accepted amount. The default is 1.
				{Name: "min_gb"},
			}, Look: lookShm,
		},
		{
			Name: "load", Summary: "whether other work keeps the processor busy",
			Schema: []hcl.AttributeSchema{
				// max_per_core (number) is the largest accepted load average per core. The default is 0.5.
				{Name: "max_per_core"},
			}, Look: lookLoad,
		},
		{Name: "writable", Summary: "whether the state and output folders can be written", Look: lookWritable},
	}
}

const gb = 1 << 30

func lookDisk(_ context.Context, t Target) []Finding {
	limit := t.Number("min_gb", 1)
	var out []Finding
	for _, dir := range []string{t.StateDir, t.OutDir} {
		at := existing(dir)
		var st syscall.Statfs_t
		if err := syscall.Statfs(at, &st); err != nil {
			out = append(out, Finding{Message: fmt.Sprintf("%s cannot be looked at: %v", at, err),
				Fix: "choose other folders with --state-dir and --out-dir"})
			continue
		}

		free := float64(st.Bavail) * float64(st.Bsize) / gb
		f := Finding{OK: free >= limit, Message: fmt.Sprintf("%.1f GB free at %s", free, at)}
		if !f.OK {
			f.Message += fmt.Sprintf(", %.4g GB required", limit)
			f.Fix = "free some space, or choose other folders with --state-dir and --out-dir"
		}

		if name, network := networkFS[int64(st.Type)]; network {
			f.Message += " (network file system " + name + ": safe, but each durable batch of rows waits for it)"
		}

		out = append(out, f)
	}

	return slices.CompactFunc(out, sameFinding) // one folder contains both
}

// networkFS are the magic numbers of statfs(2).
var networkFS = map[int64]string{
	0x6969: "NFS", 0xFF534D42: "CIFS", 0xFE534D42: "SMB2", 0x0BD00BD0: "Lustre", 0x47504653: "GPFS",
	0x65735546: "FUSE", 0x00C36400: "Ceph",
}

// existing is the folder itself or its nearest parent that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func lookMemory(_ context.Context, t Target) []Finding {
	free, err := memAvailable()
	if err != nil {
		return []Finding{{Skip: true, Message: err.Error()}}
	}

	limit := t.Number("min_gb", 1)
	f := Finding{OK: free >= limit, Message: fmt.Sprintf("%.1f GB available", free)}
	if !f.OK {
		f.Message += fmt.Sprintf(", %.4g GB required", limit)
		f.Fix = "end other programs"
	}

	return []Finding{f}
}

func memAvailable() (float64, error) {
	if runtime.GOOS != "linux" {
		return 0, fmt.Errorf("free memory is known on Linux only")
	}

	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("free memory: %w", err)
	}
	defer file.Close()

	sc := bufio.NewScanner(file)
	for sc.Scan() {
		if rest, ok := strings.CutPrefix(sc.Text(), "MemAvailable:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/meminfo: %w", err)
			}
			return kb * 1024 / gb, nil
		}
	}

	return 0, fmt.Errorf("/proc/meminfo has no MemAvailable")
}

func lookShm(_ context.Context, t Target) []Finding {
	var st syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &st); err != nil {
		return []Finding{{Skip: true, Message: fmt.Sprintf("/dev/shm: %v", err)}}
	}

	limit := t.Number("min_gb", 1)
	free := float64(st.Bavail) * float64(st.Bsize) / gb
	f := Finding{OK: free >= limit, Message: fmt.Sprintf("%.1f GB free in /dev/shm", free)}
	if !f.OK {
		f.Message += fmt.Sprintf(", %.4g GB required", limit)
		f.Fix = "start the container with a larger --shm-size, or --ipc=host"
	}

	return []Finding{f}
}

func lookLoad(_ context.Context, t Target) []Finding {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return []Finding{{Skip: true, Message: fmt.Sprintf("load: %v", err)}}
	}

	one, err := strconv.ParseFloat(strings.Fields(string(data))[0], 64)
	if err != nil {
		return []Finding{{Skip: true, Message: fmt.Sprintf("/proc/loadavg: %v", err)}}
	}

	limit := t.Number("max_per_core", 0.5)
	perCore := one / float64(runtime.NumCPU())
	f := Finding{OK: perCore <= limit, Message: fmt.Sprintf("load %.2f per core", perCore)}
	if !f.OK {
		f.Message += fmt.Sprintf(", at most %.4g allowed: other work disturbs the measurements", limit)
		f.Fix = "wait for it, or end it"
	}

	return []Finding{f}
}

func lookWritable(_ context.Context, t Target) []Finding {
	var out []Finding
	for _, dir := range []string{t.StateDir, t.OutDir} {
		at := existing(dir)
		f, err := os.CreateTemp(at, ".aicplan-preflight-*")
		if err != nil {
			out = append(out, Finding{Message: fmt.Sprintf("%s cannot be written: %v", at, err),
				Fix: "choose other folders with --state-dir and --out-dir"})
			continue
		}

		name := f.Name()
		f.Close()

		if err := os.Remove(name); err != nil {
			out = append(out, Finding{Message: fmt.Sprintf("%s: %v", name, err)})
			continue
		}

		out = append(out, Finding{OK: true, Message: at + " is writable"})
	}

	return slices.CompactFunc(out, sameFinding) // one folder contains both
}

func sameFinding(a, b Finding) bool { return a.OK == b.OK && a.Message == b.Message }
