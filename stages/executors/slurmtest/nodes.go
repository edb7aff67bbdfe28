package slurmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// serve runs the tasks of one array until all have ended.
func (c *cluster) serve(array string) error {
	nodes, err := strconv.Atoi(os.Getenv("SLURMTEST_NODES"))
	if err != nil {
		nodes = 4
	}
	free := make([]bool, nodes)
	for i := range free {
		free[i] = true
	}
	ended := make(chan int)
	running := 0
	for {
		left := 0
		err := c.locked(func() error {
			tasks, err := c.read(array)
			if err != nil {
				return err
			}
			for _, t := range tasks {
				if !t.active() {
					continue
				}
				left++
				if t.State != "PENDING" {
					continue
				}
				if why, over := c.waits(t); why != "" {
					if over {
						t.State, left = "CANCELLED", left-1
					}
					if t.Reason != why {
						t.Reason = why
						if err := c.write(t); err != nil {
							return err
						}
					}
					continue
				}
				not := strings.Split(t.Exclude, ",")
				node := -1
				for i := range free {
					if node < 0 && free[i] && !slices.Contains(not, "n"+strconv.Itoa(i)) {
						node = i
					}
				}
				if node < 0 || t.Most > 0 && running >= t.Most {
					continue
				}
				if err := c.start(t, node, ended); err != nil {
					return err
				}
				if t.State == "RUNNING" {
					free[node] = false
					running++
				} else {
					left--
				}
			}
			return nil
		})
		if err != nil || left == 0 && running == 0 {
			return err
		}
		select {
		case node := <-ended:
			free[node] = true
			running--
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// waits says why a task does not start; over is true when it never will.
func (c *cluster) waits(t *task) (why string, over bool) {
	if why := os.Getenv("SLURMTEST_REASON"); why != "" {
		return why, false
	}
	if t.After == "" {
		return "", false
	}
	tasks, err := c.read(t.After)
	if err != nil {
		return "Dependency", false
	}
	for _, d := range tasks {
		switch {
		case d.active() || d.State == "REQUEUED":
			return "Dependency", false
		case !d.wellDone():
			return "DependencyNeverSatisfied", true
		}
	}
	return "", false
}

// start runs a task on a node; the lock is held.
func (c *cluster) start(t *task, node int, ended chan<- int) error {
	out, err := os.OpenFile(t.Out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil { // as Slurm: without a word
		t.State, t.Reason, t.Exit = "FAILED", "JobLaunchFailure", "0:53"
		return c.write(t)
	}
	defer out.Close()
	said, err := os.OpenFile(t.Err, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer said.Close()
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	cmd := exec.Command(t.Script, t.Args...)
	cmd.Stdout, cmd.Stderr = out, said
	cmd.Env = append(os.Environ(), "SLURM_ARRAY_JOB_ID="+t.Array, "SLURM_ARRAY_TASK_ID="+strconv.Itoa(t.Index), "SLURM_JOB_ID="+t.Array, "SLURM_JOB_USER="+name,
		"SLURMD_NODENAME=n"+strconv.Itoa(node))
	if t.Restart > 0 {
		cmd.Env = append(cmd.Env, "SLURM_RESTART_COUNT="+strconv.Itoa(t.Restart))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.State, t.Reason, t.Node, t.PID = "RUNNING", "None", "n"+strconv.Itoa(node), cmd.Process.Pid
	if err := errors.Join(c.write(t), c.busiest()); err != nil {
		return err
	}
	go func() {
		err := cmd.Wait()
		_ = c.locked(func() error { return c.over(t, err) })
		ended <- node
	}()
	return nil
}

// over writes down how a task ended; the lock is held.
func (c *cluster) over(t *task, err error) error {
	raw, rerr := os.ReadFile(c.path(t))
	if rerr != nil {
		return rerr
	}
	now := &task{}
	if err := json.Unmarshal(raw, now); err != nil {
		return err
	}
	now.PID = 0
	var exit *exec.ExitError
	switch {
	case now.State == "REQUEUED":
		now.State, now.Reason = "PENDING", "None"
		now.Restart++
	case now.State == "CANCELLED":
	case err == nil:
		now.State, now.Exit = "COMPLETED", "0:0"
	case errors.As(err, &exit):
		now.State, now.Reason, now.Exit = "FAILED", "NonZeroExitCode", fmt.Sprintf("%d:0", exit.ExitCode())
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			now.Exit = fmt.Sprintf("0:%d", ws.Signal())
		}
	}
	return c.write(now)
}
