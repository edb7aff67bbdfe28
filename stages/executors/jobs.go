package executors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// Orders returns the orders in a state folder, by stage and age.
func Orders(stateDir string) ([]*Order, error) {
	dirs, err := fileutil.Glob(stateDir, "executors/*/*")
	if err != nil {
		return nil, err
	}

	var out []*Order
	for _, dir := range dirs {
		o, err := OpenOrder(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // its creation was interrupted
		case err != nil:
			return nil, err
		default:
			out = append(out, o)
		}
	}

	slices.SortStableFunc(out, func(a, b *Order) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// cancelledFile marks an order whose shards are not submitted again.
func (o *Order) cancelledFile() string { return filepath.Join(o.Dir, "cancelled") }

// Cancelled reports whether Cancel has cancelled the order.
func (o *Order) Cancelled() bool {
	_, err := os.Stat(o.cancelledFile())
	return err == nil
}

// Cancelled are the job arrays of a stage that were cancelled.
type Cancelled struct {
	Stage string   `json:"stage"`
	Jobs  []string `json:"jobs"`
}

// Cancel cancels the pending and running jobs of all orders in a state folder, or only of one stage. It marks
// their orders, so that a coordinator that follows them submits no shard again.
func Cancel(ctx context.Context, s *Scheduler, stateDir, stage string) ([]Cancelled, error) {
	orders, err := Orders(stateDir)
	if err != nil || len(orders) == 0 {
		return nil, err
	}

	if stage != "" && !slices.ContainsFunc(orders, func(o *Order) bool { return o.Stage == stage }) {
		var known []string
		for _, o := range orders {
			known = append(known, o.Stage)
		}
		return nil, fmt.Errorf("no jobs were submitted for %s, only for %s", stage,
			textutil.First(slices.Compact(known), 3, ", "))
	}

	jobs, err := s.queue(ctx)
	if err != nil {
		return nil, err
	}

	var out []Cancelled
	for _, o := range orders {
		if stage != "" && o.Stage != stage {
			continue
		}

		arrays, err := o.arrays()
		if err != nil {
			return out, err
		}

		var ids []string
		for _, a := range arrays {
			if a.Job != "" && slices.ContainsFunc(jobs, func(j Job) bool { return j.Array == a.Job }) {
				ids = append(ids, a.Job)
			}
		}
		if len(ids) == 0 {
			continue
		}

		// Mark the order first, because its coordinator sees the jobs end.
		if err := os.WriteFile(o.cancelledFile(), nil, 0o644); err != nil {
			return out, err
		}
		if err := s.cancel(ctx, ids...); err != nil {
			return out, err
		}
		out = append(out, Cancelled{o.Stage, ids})
	}

	return out, nil
}

// Progress are the tasks of a stage's last order, from the statuses that they have written.
type Progress struct {
	Stage     string        `json:"stage"`
	Submitted int           `json:"submitted"`
	Tasks     map[State]int `json:"tasks"` // by state; tasks that have not started are missing
	Measured  int           `json:"measured"`
	Left      int           `json:"left"`
	Cancelled bool          `json:"cancelled,omitempty"`
}

// ProgressOf returns the progress of the last order of each stage that has tasks without a final status.
func ProgressOf(stateDir string) ([]Progress, error) {
	orders, err := Orders(stateDir)
	if err != nil {
		return nil, err
	}

	last := map[string]*Order{}
	for _, o := range orders {
		last[o.Stage] = o
	}

	var out []Progress
	for _, o := range orders {
		if last[o.Stage] != o {
			continue
		}

		p := Progress{Stage: o.Stage, Tasks: map[State]int{}, Cancelled: o.Cancelled()}
		if p.Submitted, _, err = o.Submitted(); err != nil {
			return nil, err
		}

		ended := 0
		for i, shard := range o.Shards {
			st, err := o.Status(i)
			if err != nil || st == nil {
				p.Left += len(shard.Places)
				continue
			}
			p.Tasks[st.State]++
			p.Measured, p.Left = p.Measured+st.Measured, p.Left+st.Left
			if st.State.Ended() {
				ended++
			}
		}
		if ended < p.Submitted {
			out = append(out, p)
		}
	}

	return out, nil
}
