package main

import (
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"aicplan/stages/executors/slurmtest"
)

// release has every kind of stage that follows a collect, a ramp, and a group of
// cases whose breaker trips.
func release() *scene {
	return &scene{name: "ramp, breaker, verify, report, publish", ends: []int{3}, prepare: func(t *trial) string {
		if _, err := exec.LookPath("git"); err != nil {
			return "git is not installed"
		}
		t.env = append(t.env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		db := filepath.Join(t.dir, "db")
		for _, args := range [][]string{
			{"git", "init", "-q", "-b", "main", db},
			{"git", "-C", db, "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "-q", "--allow-empty", "-m", "start"},
		} {
			if out, err := t.tool(args...); err != nil {
				t.wrong("%v: %s", err, out)
			}
		}
		return ""
	}, digest: func(t *trial) string {
		rows := files("g_perf.txt")(t)
		tree, err := t.tool("git", "-C", filepath.Join(t.dir, "db"), "rev-parse", "data:perf")
		commits, err2 := t.tool("git", "-C", filepath.Join(t.dir, "db"), "rev-list", "--count", "data")
		if _, err3 := os.Stat(filepath.Join(t.dir, "out", "report.md")); rows == "" || err != nil || err2 != nil || err3 != nil {
			return ""
		}
		return rows + tree + commits
	}, plan: `
runtime "cpu" {
  kind      = "cpu"
  framework = "TRY"
  workers   = 2
  synthetic = true
}
grid "g" {
  op = "synthetic"
  axis "a" { values = range(30) }
  axis "delay_ms" { values = [6] }
  axis "fault" { values = ["none", "error"] }
}
collect "g" {
  grid    = grid.g
  runtime = runtime.cpu
  ramp {
    rungs       = [4, 20]
    max_failed  = 0.95
    whole_group = 0
  }
  breaker {
    group_by = ["fault"]
    after    = 3
  }
}
verify "g" {
  collect = collect.g
  sample  = 8
}
gate "g" {
  input = verify.g
  check "positive" {}
}
export "g" {
  input         = gate.g
  file          = "g_perf.txt"
  allow_partial = true
}
report "g" {
  title      = "soak"
  inputs     = gate.g
  depends_on = [export.g]
}
publish "g" {
  exports    = export.g
  report     = report.g
  repository = "db"
  branch     = "data"
  path       = "perf"
  message    = "add data"
  author {
    name  = "Bot"
    email = "bot@example.com"
  }
}
`}
}

// ops is a Python op that writes down each time it runs.
const ops = `
import os, time

def op(m, bench):
    with open("executed", "a") as f:
        f.write("%d\n" % m)
    time.sleep(0.01)
    return {"latency": 1.0 + m, "kernel_source": "x"}
`

func python() *scene {
	return &scene{name: "Python", digest: files("p_perf.txt"), prepare: func(t *trial) string {
		if _, err := exec.LookPath("python3"); err != nil {
			return "python3 is not installed"
		}
		t.write("ops.py", ops)
		return ""
	}, plan: `
runtime "py" {
  kind      = "python"
  framework = "TRY"
  device    = "cpu"
  workers   = 2
  path      = ["ops.py"]
}
grid "p" {
  op = "op"
  axis "m" { values = range(30) }
}
collect "p" {
  grid    = grid.p
  runtime = runtime.py
}
export "p" {
  input = collect.p
  file  = "p_perf.txt"
}
`}
}

// loads is the grid of scenes that ask a server.
const loads = `
grid "load" {
  op = "chat"
  axis "concurrency" { values = [1, 2] }
  axis "isl" { values = [4, 5, 6] }
}
collect "load" {
  grid    = grid.load
  runtime = runtime.srv
  load {
    requests = 6
    osl      = 3
  }
}
export "load" {
  input = collect.load
  file  = "load.csv"
}
`

// asked is the digest of the cases that have a row: their latencies are no two
// times the same.
func asked(t *trial) string {
	f, err := os.Open(filepath.Join(t.dir, "out", "load.csv"))
	if err != nil {
		return ""
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		return ""
	}
	sum := sha256.New()
	for i, row := range rows {
		for _, name := range []string{"op_name", "concurrency", "isl", "request_throughput"} {
			at := slices.Index(rows[0], name)
			if at < 0 || row[at] == "" {
				return ""
			}
			if i > 0 && name != "request_throughput" {
				fmt.Fprintln(sum, row[at])
			}
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func server() *scene {
	return &scene{name: "server", digest: asked, prepare: func(t *trial) string {
		t.env = append(t.env, "PATH="+filepath.Dir(t.binary)+":"+os.Getenv("PATH"))
		return ""
	}, plan: `
runtime "srv" {
  kind    = "server"
  command = ["aicplan", "mock-server", "-listen", "{host}:{port}", "-itl", "4ms"]
  model   = "m"
  ready { within = "10m" }
}
` + loads}
}

func endpoint() *scene {
	return &scene{name: "endpoint", digest: asked, prepare: func(t *trial) string {
		t.serveModel("127.0.0.1:0")
		return ""
	}, plan: `
variable "url" { type = string }
runtime "srv" {
  kind  = "endpoint"
  url   = var.url
  model = "m"
}
` + loads}
}

// serveModel starts a server that stays until the trial ends, and returns what
// kills it and where it listens.
func (t *trial) serveModel(at string) (kill func(), address string) {
	file := filepath.Join(t.dir, "address")
	_ = os.Remove(file)
	r := t.serve("mock-server", "-listen", at, "-address-file", file, "-itl", "4ms")
	r.until(func() bool {
		text, err := os.ReadFile(file)
		address = strings.TrimSpace(string(text))
		return err == nil && address != ""
	})
	if address == "" {
		t.wrong("mock-server does not start: %s", r.out.String())
	}
	t.env = append(t.env, "AICPLAN_VAR_url="+address)
	kill = func() {
		r.signal(syscall.SIGKILL, true)
		<-r.done
	}
	t.tidy = append(t.tidy, kill)
	return kill, address
}

// jobs has its cases measured by jobs of a cluster, which this program stands in
// for.
func jobs() *scene {
	return &scene{name: "executor", follows: true, digest: files("s.csv"), prepare: func(t *trial) string {
		self, err := os.Executable()
		if err != nil {
			return err.Error()
		}
		bin := filepath.Join(t.dir, "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.wrong("%v", err)
		}
		for _, name := range slurmtest.Commands {
			if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
				t.wrong("%v", err)
			}
		}
		t.env = append(t.env, "PATH="+bin+":"+os.Getenv("PATH"), "SLURMTEST_DIR="+filepath.Join(t.dir, "cluster"))
		return ""
	}, plan: `
executor "cluster" {
  kind     = "slurm"
  account  = "a"
  time     = "00:30:00"
  tasks    = 3
  poll     = "100ms"
  attempts = 5
}
runtime "cpu" {
  kind      = "cpu"
  framework = "TRY"
  synthetic = true
}
grid "s" {
  op = "synthetic"
  axis "a" { values = range(30) }
  axis "delay_ms" { values = [20] }
}
collect "s" {
  grid     = grid.s
  runtime  = runtime.cpu
  executor = executor.cluster
}
export "s" {
  input = collect.s
  file  = "s.csv"
}
`}
}
