package executors

import (
	"context"
	"errors"
	"os/exec"
	"os/user"
	"strings"
	"time"
)

// accountingTime bounds a question to the accounting: it is a hint only.
const accountingTime = 15 * time.Second

// account is what the accounting knows of the tasks of arrays, by their ids, in
// the words of scontrol. Many sites have none, and it may lag behind: nil says
// nothing about the jobs.
func (s *Scheduler) account(ctx context.Context, arrays []string) map[string]map[string]string {
	if s.unaccounted || len(arrays) == 0 {
		return nil
	}
	asked := *s
	asked.Timeout = accountingTime
	out, err := asked.run(ctx, "sacct", "--noheader", "--parsable2", "--allocations", "--jobs="+strings.Join(arrays, ","), "--format=JobID,State,ExitCode,NodeList,Reason")
	if err != nil {
		// A database that does not answer now may later.
		var busy *busyError
		s.unaccounted = !errors.As(err, &busy) && (errors.Is(err, exec.ErrNotFound) || strings.Contains(err.Error(), "disabled"))
		return nil
	}
	return accounts(out)
}

// accounts reads the lines of sacct.
func accounts(out string) map[string]map[string]string {
	known := map[string]map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimRight(line, "\r\n"), "|")
		if len(f) < 5 || strings.Contains(f[0], "[") {
			continue // tasks that have not started are one line
		}
		state, by, _ := strings.Cut(f[1], " by ")
		state, _, _ = strings.Cut(state, " ")
		known[f[0]] = map[string]string{"JobState": strings.TrimSuffix(state, "+"), "ExitCode": f[2], "NodeList": nodeList(f[3]), "Reason": f[4], "By": strings.TrimSpace(by)}
	}
	return known
}

// nodeList is empty where sacct says in words that there is none.
func nodeList(s string) string {
	if s == "None assigned" {
		return ""
	}
	return s
}

// byWhom says who has cancelled a job, given the number or name that the
// accounting has; "" where it has none.
func byWhom(uid string) string {
	if uid == "" {
		return ""
	}
	name := uid
	if u, err := user.LookupId(uid); err == nil {
		name = u.Username
	}
	if me, err := user.Current(); err == nil && (me.Uid == uid || me.Username == uid) {
		return " by you (" + name + ")"
	}
	return " by " + name
}

// described is what Slurm knows of a task that is in no queue; nil where it has
// forgotten it. It is asked once for an array and look at the queue.
func (f *Follower) described(ctx context.Context, array, id string) map[string]string {
	if f.ends == nil {
		f.ends = map[string]map[string]map[string]string{}
	}
	if _, asked := f.ends[array]; !asked {
		f.ends[array] = f.Scheduler.describe(ctx, array)
	}
	return f.ends[array][id]
}

// accounted is what the accounting knows of a task; it is asked about all arrays
// at once, and not at every look.
func (f *Follower) accounted(ctx context.Context, id string) map[string]string {
	if f.accounts == nil || time.Since(f.accountsAt) > max(f.Config.Poll, time.Second) {
		var arrays []string
		for _, b := range f.batches {
			if jobID.MatchString(b.Job) {
				arrays = append(arrays, b.Job)
			}
		}
		f.accounts, f.accountsAt = f.Scheduler.account(ctx, arrays), time.Now()
		if f.accounts == nil {
			f.accounts = map[string]map[string]string{}
		}
	}
	return f.accounts[id]
}
