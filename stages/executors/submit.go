package executors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"aicplan/sink/phrase"
)

// absent is the id of an array that sbatch was asked for and that is in no queue.
const absent = "none"

// adopt finds the id of an array that was submitted by a coordinator that died
// before it could write the id down, or by an sbatch that did not answer.
func (f *Follower) adopt(jobs []Job) error {
	changed := false
	for i := range f.batches {
		b := &f.batches[i]
		if b.Job != "" && b.Job != absent {
			continue
		}
		was := b.Job
		b.Job = absent // a scheduler that is slow may still have it
		for _, j := range jobs {
			if j.Comment == f.Order.comment(b.Number) {
				b.Job = j.Array
			}
		}
		changed = changed || b.Job != was
	}
	if !changed {
		return nil
	}
	return f.Order.writeBatches(f.batches)
}

// submit hands shards to Slurm, in as few arrays as its limit on indices allows.
func (f *Follower) submit(ctx context.Context, shards []int) (int, error) {
	f.crowded = 0
	if len(shards) == 0 {
		return 0, nil
	}
	most := f.Scheduler.arraySize(ctx)
	if most == 0 {
		return 0, f.refusedBy(errors.New("job arrays are switched off on this cluster (MaxArraySize is 0 in scontrol show config), and tasks are elements of arrays: ask its administrators for them, or apply with kind = \"local\" inside an allocation"))
	}
	after := ""
	reserved := 0 // for the samples: what waits for them does not run beside them
	if f.Order.Scout && !f.shards[0].done {
		if slices.Contains(shards, 0) {
			if f.Config.Parallel > 0 {
				if reserved = f.reserve(1); reserved == 0 {
					f.postpone(shards)
					return 0, nil
				}
			}
			err := f.batch(ctx, []int{0}, 0, "", 0)
			switch {
			case errors.Is(err, errFull) && f.queued > 0:
				for _, s := range shards {
					f.shards[s].due = true
				}
				return 0, nil // when other jobs have ended
			case errors.Is(err, errFull):
				return 0, f.refusedBy(err)
			case err != nil:
				return 0, err
			}
			shards = slices.DeleteFunc(slices.Clone(shards), func(s int) bool { return s == 0 })
		}
		if n := f.shards[0].batch; n >= 0 {
			after = f.batches[n].Job
		}
	}
	alike := f.alike(shards)
	tasks := make([]int, len(alike))
	for i, a := range alike {
		tasks[i] = len(a)
	}
	lanes := f.lanes(tasks, reserved)
	n, wait := 0, 0
	for i, shards := range alike {
		for len(shards) > 0 {
			if f.Config.Parallel > 0 && lanes[i] == 0 {
				f.postpone(shards)
				break
			}
			offset := 0
			if shards[0] >= most {
				offset = shards[0]
			}
			end := 0
			for end < len(shards) && shards[end]-offset < most && (f.room == 0 || end < f.room) {
				end++
			}
			err := f.batch(ctx, shards[:end], offset, after, lanes[i])
			switch {
			case err == nil:
				n += end
				lanes[i] = max(0, lanes[i]-end)
				f.room *= 2
				shards = shards[end:]
			case !errors.Is(err, errFull):
				return n, err
			case end > 1:
				f.room = end / 2
			case f.queued == 0 && n == 0:
				return n, f.refusedBy(err) // not one job is allowed
			default:
				for _, later := range alike[i+1:] {
					shards = append(slices.Clone(shards), later...)
				}
				for _, s := range shards {
					f.shards[s].due = true
				}
				wait, f.room = len(shards), 1
			}
			if wait > 0 {
				break
			}
		}
		if wait > 0 {
			break
		}
	}
	switch {
	case wait == 0:
		f.full, f.room = false, 0
	case !f.full:
		f.full = true
		f.Work.Say("info", fmt.Sprintf("%s in no queue yet, since no more jobs of yours may be: each is submitted when another has ended", theyAre(wait)))
	}
	return n, nil
}

func theyAre(n int) string {
	if n == 1 {
		return "1 task is"
	}
	return phrase.Some(n, "task") + " are"
}

// errFull is that of an sbatch that says that too many jobs are in the queue.
var errFull = errors.New("the limit on submitted jobs")

// refusedBy is the error of a submission, with the place of the block.
func (f *Follower) refusedBy(err error) error {
	return fmt.Errorf("%s (%s:%d): the jobs cannot be submitted: %w", f.Config.Address, f.Config.Range.Filename, f.Config.Range.Start.Line, refusal(err))
}

// alike are shards whose jobs ask for the same, in the order of the shards.
func (f *Follower) alike(shards []int) [][]int {
	var sizes []int
	by := map[int][]int{}
	for _, s := range shards {
		gpus := f.Order.Shards[s].GPUs
		if by[gpus] == nil {
			sizes = append(sizes, gpus)
		}
		by[gpus] = append(by[gpus], s)
	}
	out := make([][]int, len(sizes))
	for i, gpus := range sizes {
		out[i] = by[gpus]
	}
	return out
}

// noNode is what sbatch says where no node is left.
const noNode = "Requested node configuration is not available"

// A node that fails all that it is given is always free, and would be given every
// further try.
const mostShunned = 16

var oneNode = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// shun keeps the next try away from the node of the last one, where that was one
// node.
func (s *shard) shun() {
	if oneNode.MatchString(s.node) && !slices.Contains(s.avoid, s.node) && len(s.avoid) < mostShunned {
		s.avoid = append(s.avoid, s.node)
	}
}

// shunned are the nodes that an array stays away from, with those that the block
// excludes; "" where the block leaves it to Slurm.
func (f *Follower) shunned(shards []int) string {
	var nodes []string
	for _, i := range shards {
		for _, n := range f.shards[i].avoid {
			if !slices.Contains(nodes, n) && len(nodes) < mostShunned {
				nodes = append(nodes, n)
			}
		}
	}
	if _, chosen := f.Config.Options["nodelist"]; chosen || len(nodes) == 0 {
		return ""
	}
	if own := f.Config.Options["exclude"]; own != "" {
		nodes = append(nodes, own)
	}
	return strings.Join(nodes, ",")
}

// batch submits one array. It is written down first that it is about to be, so
// that a coordinator that dies meanwhile finds it by its comment.
func (f *Follower) batch(ctx context.Context, shards []int, offset int, after string, parallel int) error {
	b := Batch{Number: len(f.batches), Offset: offset, Shards: slices.Clone(shards), After: after, At: time.Now().UTC()}
	if err := os.MkdirAll(f.Order.LogDir(f.Config), 0o755); err != nil {
		return fmt.Errorf("the folder for the jobs' output cannot be made, and without it they die without a word: %w", err)
	}
	if parallel > 0 {
		b.Most = min(parallel, len(shards))
	}
	gpus := f.Order.Shards[shards[0]].GPUs
	script := filepath.Join(f.Order.Dir(), "script.sh")
	if gpus > 0 {
		script = filepath.Join(f.Order.Dir(), fmt.Sprintf("script-%d-gpus.sh", gpus))
	}
	if err := os.WriteFile(script, []byte(f.Config.Sized(gpus).Text(f.Script)), 0o755); err != nil {
		return err
	}
	if err := f.Order.writeBatches(append(slices.Clone(f.batches), b)); err != nil {
		return err
	}
	indices := make([]int, len(shards))
	for i, s := range shards {
		indices[i] = s - offset
	}
	var err error
	call := submission{
		script: script, indices: indices, most: parallel, after: after, comment: f.Order.comment(b.Number),
		args: []string{fmt.Sprint(offset), fmt.Sprint(b.Number)}, exclude: f.shunned(shards),
	}
	b.Job, err = f.Scheduler.submit(ctx, call)
	if err != nil && call.exclude != "" && strings.Contains(err.Error(), noNode) {
		call.exclude = "" // there are no others
		b.Job, err = f.Scheduler.submit(ctx, call)
	}
	var busy *busyError
	full := err != nil && strings.Contains(err.Error(), submitLimit)
	if err != nil && (full || !errors.As(err, &busy)) {
		if werr := f.Order.writeBatches(f.batches); werr != nil {
			return werr
		}
		if full {
			return fmt.Errorf("%w: %w", errFull, err)
		}
		return f.refusedBy(err)
	}
	f.batches = append(f.batches, b)
	for _, s := range shards {
		sh := &f.shards[s]
		sh.batch, sh.gone, sh.left, sh.due = len(f.batches)-1, time.Time{}, f.Work.Left(s), false
	}
	if err != nil {
		// It may have been taken all the same: adopt finds it by its comment.
		if f.refused.IsZero() {
			f.refused = time.Now()
			f.Work.Say("warn", fmt.Sprintf("%s cannot be submitted now, and will be: %v", phrase.Some(len(shards), "task"), err))
		}
		return nil
	}
	f.refused = time.Time{}
	f.Work.Say("info", fmt.Sprintf("%s submitted as %s; logs in %s", phrase.Some(len(shards), "task"), b.Job, f.Order.LogDir(f.Config)))
	return f.Order.writeBatches(f.batches)
}
