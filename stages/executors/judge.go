package executors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"aicplan/sink/phrase"
)

// judge decides about every shard; it returns those that are to be submitted.
func (f *Follower) judge(ctx context.Context, jobs []Job, out *Outcome) (again []int, err error) {
	active := map[place]Job{}
	for _, j := range jobs {
		active[place{j.Array, j.Index}] = j
	}
	now := time.Now()
	running, reasons := 0, map[string]int{}
	passing := 0           // wait for what passes by itself
	var kept, behind []int // held, and waiting for samples
	stuck, retried, given := told{}, told{}, told{}
	defer func() {
		f.giveUpStuck(ctx, active, stuck)
		given.each(func(why string, shards []int) {
			f.Work.Say("error", fmt.Sprintf("%s given up: %s", areTasks(shards), why))
		})
		retried.each(func(why string, shards []int) {
			left := 0
			for _, i := range shards {
				left += f.Work.Left(i)
			}
			f.Work.Say("warn", fmt.Sprintf("%s submitted again, with %s left: %s", areTasks(shards), phrase.Some(left, "case"), why))
		})
	}()
	for i := range f.shards {
		s := &f.shards[i]
		if s.done || s.lost != "" {
			continue
		}
		left := f.Work.Left(i)
		var b *Batch
		job, listed := Job{}, false
		if s.batch >= 0 {
			b = &f.batches[s.batch]
			job, listed = active[place{b.Job, i - b.Offset}]
		}
		switch {
		case listed && waits(job.State):
			s.gone = time.Time{}
			if left == 0 && !f.scout(i) {
				// A try that was killed had stored all of them.
				f.cancel(ctx, []string{job.ID()})
				s.done = true
				continue
			}
			reasons[job.Reason]++
			if why := f.stuck(ctx, i, job, now.Sub(b.At)); why != "" {
				s.lost = "it never started: " + why
				stuck.add(why, i)
				continue
			}
			switch _, how := whyWaiting(job.Reason); {
			case how == held:
				kept = append(kept, i)
			case job.Reason == "Dependency" && b.After != "":
				behind = append(behind, i)
			default:
				passing++
			}
		case listed && job.State == suspended:
			s.gone, s.heard = time.Time{}, now
			reasons[suspended]++
			passing++
		case listed:
			s.gone = time.Time{}
			running++
			f.silence(i, job, now)
		case left == 0 && f.scout(i) && s.batch >= 0 && !f.passed(s, now):
			// Whether the samples passed is for their task to say.
			if s.said != nil && s.said.State == Stopped {
				out.Stopped = s.said.Message
				return nil, nil
			}
			running++
		case left == 0:
			s.done = true
		case s.batch >= 0 && f.Order.Scout && i > 0 && !f.shards[0].done && f.shards[0].lost == "":
			running++ // it was cancelled; what becomes of the samples decides
		case s.batch < 0 || s.due:
			again = append(again, i)
		default:
			if s.gone.IsZero() {
				s.gone = now
			}
			if b.Job == absent {
				again = append(again, i) // sbatch did not answer, and has done nothing
				continue
			}
			why, over := f.why(ctx, i, left, now)
			if !over {
				running++ // what it wrote is on its way
				continue
			}
			if s.said != nil && s.said.State == Stopped && f.Order.Scout && i == 0 {
				out.Stopped = s.said.Message
				return nil, nil
			}
			switch {
			case b.After != "" && (s.said == nil || s.said.Attempt < b.Number*restarts):
				// It was cancelled with the samples that it waited for, which have
				// passed by now: no fault of its own.
				again = append(again, i)
				continue
			case left < s.left:
				s.fruitless = 0
			default:
				s.fruitless++
				if s.state != "CANCELLED" && s.state != "PREEMPTED" {
					s.shun()
				}
			}
			if s.state == "CANCELLED" {
				s.cancelled++
			}
			if s.cancelled >= f.Config.Attempts && s.fruitless < f.Config.Attempts {
				// Rows or not: somebody does not want it to run.
				s.lost = fmt.Sprintf("%s; that was cancellation %d, and attempts is %d", why, s.cancelled, f.Config.Attempts)
				given.add(s.lost, i)
				continue
			}
			if s.fruitless >= f.Config.Attempts {
				s.lost = fmt.Sprintf("%s; %s brought no further row", why, phrase.Some(s.fruitless, "try"))
				if s.fruitless > 1 {
					s.lost = fmt.Sprintf("%s; %d tries brought no further row", why, s.fruitless)
				}
				given.add(s.lost, i)
				continue
			}
			if s.said == nil || s.said.State != Drained || s.said.Told {
				retried.add(why, i)
			}
			again = append(again, i)
		}
	}
	f.tell(running, reasons)
	if running > 0 || passing > 0 || len(again) > 0 || len(kept) == 0 {
		f.heldSince = time.Time{}
	} else {
		f.leaveHeld(active, kept, behind, now)
	}
	return again, nil
}

// suspended is the state of a job that was stopped and is to go on.
const suspended = "SUSPENDED"

// scout says whether a shard has the samples of the ramp.
func (f *Follower) scout(i int) bool { return f.Order.Scout && i == 0 }

// passed says whether the task of the samples has ended well, or has kept silent
// for so long that its rows alone count.
func (f *Follower) passed(s *shard, now time.Time) bool {
	if s.gone.IsZero() {
		s.gone = now
	}
	if s.said != nil && s.said.State.Ended() {
		return s.said.State != Stopped
	}
	return now.Sub(s.gone) > f.Config.Settle
}

// stuck says why a task in the queue is given up, "" where it is not.
func (f *Follower) stuck(ctx context.Context, i int, job Job, since time.Duration) string {
	s := &f.shards[i]
	why, how := whyWaiting(job.Reason)
	switch {
	case how == never:
		return why
	case f.Config.StartWithin > 0 && since > f.Config.StartWithin && s.said == nil:
		return fmt.Sprintf("it has not started within %s (%s)", f.Config.StartWithin, why)
	case job.Reason == "BeginTime" && s.said != nil && time.Since(s.hurried) > 10*time.Second:
		s.hurried = time.Now()
		if err := f.Scheduler.hurry(ctx, job.ID()); err != nil {
			f.Work.Say("debug", err.Error())
		}
	}
	return ""
}

// leaveHeld ends the waiting for tasks that are held, once there is nothing else
// to wait for: only a person lets them go. They stay in the queue.
func (f *Follower) leaveHeld(active map[place]Job, kept, behind []int, now time.Time) {
	if f.heldSince.IsZero() {
		f.heldSince = now
	}
	if now.Sub(f.heldSince) < f.Config.Settle {
		return
	}
	by := told{}
	for _, i := range kept {
		b := f.batches[f.shards[i].batch]
		why, _ := whyWaiting(active[place{b.Job, i - b.Offset}].Reason)
		by.add(why, i)
	}
	by.each(func(why string, shards []int) {
		var arrays []string
		for _, i := range shards {
			f.shards[i].lost, f.shards[i].held = "it never started: "+why, true
			if id := f.batches[f.shards[i].batch].Job; !slices.Contains(arrays, id) {
				arrays = append(arrays, id)
			}
		}
		ids := strings.Join(arrays, " ")
		f.Work.Say("error", fmt.Sprintf("%s not waited for any longer, and left in the queue: %s; scontrol release %s lets the jobs start, and then the same command follows them; scancel %s ends them",
			areTasks(shards), why, strings.Join(arrays, ","), ids))
	})
	for _, i := range behind {
		f.shards[i].lost, f.shards[i].held = "it never started: the samples of the ramp, which are first, are held", true
	}
}

// giveUpStuck cancels tasks that will not start, and says so once for each
// reason.
func (f *Follower) giveUpStuck(ctx context.Context, active map[place]Job, stuck told) {
	stuck.each(func(why string, shards []int) {
		var ids []string
		for _, i := range shards {
			b := f.batches[f.shards[i].batch]
			ids = append(ids, active[place{b.Job, i - b.Offset}].ID())
		}
		f.cancel(ctx, ids)
		text := ids[0]
		if n := len(ids); n > 1 {
			text += " to " + ids[n-1]
		}
		will := "will not start and is cancelled"
		if len(ids) > 1 {
			will = "will not start and are cancelled"
		}
		f.Work.Say("error", fmt.Sprintf("%s (%s) %s: %s", taskNumbers(shards), text, will, why))
	})
}

// cancel ends jobs; what the scheduler says against it is a warning.
func (f *Follower) cancel(ctx context.Context, ids []string) {
	for part := range slices.Chunk(ids, 500) { // a command line has an end
		if err := f.Scheduler.cancel(ctx, part...); err != nil {
			f.Work.Say("warn", err.Error())
			return
		}
	}
}

// place is where a task is in the queue.
type place struct {
	job   string
	index int
}

// quietAfter is after how many heartbeats without a word the user is told.
const quietAfter = 6

// silence tells the user of a task that runs, as Slurm says, and is silent.
func (f *Follower) silence(i int, job Job, now time.Time) {
	s := &f.shards[i]
	if s.said == nil || s.said.State.Ended() {
		return
	}
	quiet := now.Sub(s.heard)
	switch {
	case quiet > quietAfter*Heartbeat+f.Config.Settle && !s.silent:
		s.silent = true
		f.Work.Say("warn", fmt.Sprintf("task %d (%s) on %s has said nothing for %s: the node or the file system is slow, or it hangs; scancel %s lets it be tried elsewhere",
			i, job.ID(), s.said.Node, rounded(quiet), job.ID()))
	case quiet < 2*Heartbeat:
		s.silent = false
	}
}
