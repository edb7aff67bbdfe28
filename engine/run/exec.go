package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/checkpoint"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// runStage runs a stage and stores what it produced.
func (r *runner) runStage(ctx context.Context, s *plan.Stage, sr *StageResult) {
	r.ev.stageStart(s)
	started := time.Now()
	inputs, err := r.inputs(s)
	if err == nil {
		var out *stage.Outcome
		out, err = r.call(ctx, s, inputs)
		sr.Outcome = out
	}
	if err != nil {
		sr.Status, sr.Message, sr.Busy = stage.StatusFailed, err.Error(), errors.Is(err, fileutil.ErrBusy)
		if errors.Is(err, context.Canceled) {
			sr.Status, sr.Message = stage.StatusInterrupted, "stopped at once; what was acknowledged is kept"
		}
		if sr.Outcome != nil {
			sr.Outcome.Status, sr.Outcome.Message = sr.Status, sr.Message
		}
		return
	}
	out := sr.Outcome
	sr.Status, sr.Message = out.Status, out.Message
	output, digest, err := r.store(ctx, s, out, time.Since(started).Seconds())
	if err != nil {
		sr.Status, sr.Message = stage.StatusFailed, "its outcome could not be stored: "+err.Error()
		return
	}
	if !bad(out.Status) {
		r.publish(s, out, output, digest)
	}
}

// call runs the stage's own code. A panic there is a bug of ours that must not
// take the other stages along; it fails the stage with its stack in the log.
func (r *runner) call(ctx context.Context, s *plan.Stage, inputs map[string]*stage.Dataset) (out *stage.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.opts.Log.Error("panic", "stage", s.Address(), "value", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error in %s: %v; the stack is in the log of this run", s.Address(), p)
		}
	}()
	if done := r.opts.Done[s.Address()]; done != nil {
		return done, nil
	}
	options := r.plan.StageOptions(s)
	var replace func() error
	if options.Again && s.Action != stage.ActionReady {
		if options.Epoch == "" {
			options.Epoch = checkpoint.NewEpoch("replace")
		}
		replace = func() error { return r.replace(s, options.Epoch) }
		if !s.Instance.Kind.Class.OwnsDevices() {
			if err := replace(); err != nil {
				return nil, err
			}
		}
	}
	out, err = s.Config.Run(ctx, &stage.RunContext{
		Address: s.Address(), Key: s.Key, Range: s.Instance.Range, Inputs: inputs, Plan: s.Plan, Store: r.plan.Store,
		Log: r.opts.Log.Named(s.Address()), Events: r.ev, RunDir: r.opts.Run.Dir, OutDir: r.opts.OutDir,
		PlanDir: r.plan.Config.Dir, Options: options, Replace: replace, Upstream: func() []stage.Finished { return r.finished(s.Address()) }, Claim: r.claim(s.Address()), Standing: r.standing, Stop: r.opts.Stop,
	})
	if err == nil && out == nil {
		panic("stage returned neither outcome nor error")
	}
	return out, err
}

// replace makes durable that what the record of s says counts no more.
func (r *runner) replace(s *plan.Stage, epoch string) error {
	rec := &checkpoint.StageRecord{Address: s.Address(), Kind: s.Instance.Kind.Name, Status: "replacing", RunID: r.opts.Run.ID, Plan: r.plan.Name()}
	if s.Record != nil {
		copied := *s.Record
		rec = &copied
	}
	rec.Replacing = epoch
	if err := r.plan.Store.WriteStage(rec); err != nil {
		return fmt.Errorf("%s is to be replaced, and that cannot be kept: %w", s.Address(), err)
	}
	s.Record = rec
	return nil
}

// finished lists the stages before one that have ended, in run order.
func (r *runner) finished(before string) []stage.Finished {
	known := r.plan.Graph.Closure(before)
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []stage.Finished
	for _, s := range r.plan.Stages {
		sr := r.results[s.Address()]
		if sr == nil || !known[s.Address()] {
			continue
		}
		o := sr.Outcome
		if o == nil {
			o = &stage.Outcome{Status: sr.Status, Message: sr.Message}
		}
		if o.Data == nil && r.data[s.Address()] != nil {
			with := *o
			with.Data = r.data[s.Address()]
			o = &with
		}
		f := stage.Finished{Address: sr.Address, Kind: sr.Kind, Class: sr.Is.Class, Reused: sr.Reused, Outcome: o, Seconds: sr.Seconds, After: r.plan.Graph.Deps(sr.Address)}
		if s.Plan != nil {
			f.Waterfall = s.Plan.Waterfall
		}
		out = append(out, f)
	}
	return out
}

// standing are the stages whose data the run takes as it is. Those that wait for
// others before they are reused are among them.
func (r *runner) standing() map[string]stage.Stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := maps.Clone(r.kept)
	for _, s := range r.plan.Stages {
		if sr := r.results[s.Address()]; sr != nil && !bad(sr.Status) {
			out[s.Address()] = s.Config
		}
	}
	return out
}

// inputs loads the datasets that the stage reads.
func (r *runner) inputs(s *plan.Stage) (map[string]*stage.Dataset, error) {
	out := map[string]*stage.Dataset{}
	for _, in := range s.Config.Inputs() {
		if s.Instance.Kind.Class == stage.Report && r.endedBadly(in.Ref.Address) {
			// What an earlier run left under that address is not what this one
			// is about.
			out[in.Name] = r.leftBy(in.Ref.Address)
			continue
		}
		d, err := r.dataset(in.Ref.Address)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", in.Name, s.Address(), err)
		}
		out[in.Name] = d
	}
	return out, nil
}

func (r *runner) endedBadly(address string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	up := r.results[address]
	return up != nil && bad(up.Status)
}

// leftBy is the data of a stage that did not end well, nil without any: a gate
// that failed has judged a table all the same.
func (r *runner) leftBy(address string) *stage.Dataset {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.results[address].Outcome; o != nil {
		return o.Data
	}
	return nil
}

// dataset is what a stage handed on: in memory, from its plan, or read back.
func (r *runner) dataset(address string) (*stage.Dataset, error) {
	r.mu.Lock()
	d := r.data[address]
	r.mu.Unlock()
	if d != nil {
		return d, nil
	}
	up := r.plan.Stage(address)
	if up.Plan != nil && up.Plan.Data != nil {
		return up.Plan.Data, nil
	}
	rec, err := r.plan.Store.ReadStage(address)
	if err != nil {
		return nil, err
	}
	d, err = LoadDataset(r.plan.Store, rec)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.data[address] = d
	r.mu.Unlock()
	return d, nil
}

// LoadDataset reads back what a stage record names.
func LoadDataset(store *checkpoint.Store, rec *checkpoint.StageRecord) (*stage.Dataset, error) {
	return LoadShared(nil)(store, rec)
}

// LoadShared is LoadDataset for many stages of one store: a gate hands on the table
// that it judged, and large ones are held once. read has the tables by digest; nil
// keeps none.
func LoadShared(read map[string]arrow.Record) func(*checkpoint.Store, *checkpoint.StageRecord) (*stage.Dataset, error) {
	return func(store *checkpoint.Store, rec *checkpoint.StageRecord) (*stage.Dataset, error) {
		return loadDataset(store, rec, read)
	}
}

func loadDataset(store *checkpoint.Store, rec *checkpoint.StageRecord, read map[string]arrow.Record) (*stage.Dataset, error) {
	d := &stage.Dataset{}
	var err error
	if d.Info, err = plan.ReadInfo(rec); err != nil {
		return nil, fmt.Errorf("record of %s: %w", rec.Address, err)
	}
	for _, part := range []struct {
		name, digest string
		into         *arrow.Record
	}{{"table", rec.Outputs.Table, &d.Table}, {"ledger", rec.Outputs.Ledger, &d.Ledger}, {"planned cases", rec.Outputs.Planned, &d.Planned}} {
		if part.digest == "" {
			continue
		}
		t, ok := read[part.digest]
		if !ok {
			if t, err = store.GetRecord(part.digest); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", part.name, rec.Address, err)
			}
			if read != nil {
				read[part.digest] = t
			}
		}
		*part.into = t
	}
	return d, nil
}

// store makes the outcome durable and returns its identity and the digest of
// its table.
func (r *runner) store(ctx context.Context, s *plan.Stage, out *stage.Outcome, seconds float64) (identity, digest string, err error) {
	if d := out.Data; s.Plan != nil && s.Plan.Data != nil && d != nil && d.Table == nil {
		// A grid: nothing that a later plan could not work out.
		out.Counts.Rows = int(d.Planned.NumRows())
		return s.Output, s.Output, nil
	}
	// What measured is known by now, where it was only assumed before.
	if err := r.plan.Rekey(ctx, s); err != nil {
		return "", "", err
	}
	rec := &checkpoint.StageRecord{
		Address: s.Address(), Kind: s.Instance.Kind.Name, Key: s.Key, Inputs: s.Inputs, Status: string(out.Status),
		Journal: out.Journal,
		Message: out.Message, Reason: s.Reason, RunID: r.opts.Run.ID, Seconds: seconds,
		Plan: r.plan.Name(),
	}
	if out.Status == stage.StatusInterrupted && s.Record != nil {
		rec.Replacing = s.Record.Replacing // goes on with the next run
	}
	if d := out.Data; d != nil {
		if rec.Outputs, err = r.putTables(d); err != nil {
			return "", "", err
		}
		if rec.Info, err = json.Marshal(d.Info); err != nil {
			return "", "", err
		}
		if d.Table != nil && out.Counts.Rows == 0 {
			out.Counts.Rows = int(d.Table.NumRows())
		}
	}
	if rec.Counts, err = json.Marshal(out.Counts); err != nil {
		return "", "", err
	}
	if rec.Checks, err = json.Marshal(out.Checks); err != nil {
		return "", "", err
	}
	if rec.Artifacts, err = json.Marshal(out.Artifacts); err != nil {
		return "", "", err
	}
	if len(out.Artifacts) > 0 {
		rec.OutDir = r.opts.OutDir
	}
	if rec.Values, err = plan.MarshalValues(out.Values); err != nil {
		return "", "", err
	}
	identity = plan.OutputIdentity(rec)
	if s.Plan != nil && s.Plan.Data != nil {
		identity = s.Output // an import is what its plan says, here and in the next plan
	}
	digest = rec.Outputs.Table
	if out.NoReuse && len(out.Artifacts) > 0 {
		rec.Key = "" // no plan reuses it; it says who wrote the files
	} else if out.NoReuse || s.Instance.Kind.Class == stage.Guard || s.Key == "" {
		return identity, digest, nil
	}
	if o := r.plan.Options.Stage; o.Limit > 0 || o.Smoke {
		// What a sample came to is in the journal; a record of all cases stays.
		if s.Record != nil && !s.Record.Sample {
			return identity, digest, nil
		}
		rec.Sample = true
	}
	if err := r.plan.Store.WriteStage(rec); err != nil {
		return identity, digest, err
	}
	return identity, digest, nil
}

func (r *runner) putTables(d *stage.Dataset) (checkpoint.Outputs, error) {
	var out checkpoint.Outputs
	for _, part := range []struct {
		rec  arrow.Record
		into *string
	}{{d.Table, &out.Table}, {d.Ledger, &out.Ledger}, {d.Planned, &out.Planned}} {
		if part.rec == nil {
			continue
		}
		digest, err := r.put(part.rec)
		if err != nil {
			return out, err
		}
		*part.into = digest
	}
	var err error
	out.Attached, err = stage.AttachmentDigests(d.Table)
	return out, err
}

// put stores a table. Stages that hand on what they were given cost no second
// encoding of it.
func (r *runner) put(rec arrow.Record) (string, error) {
	r.mu.Lock()
	digest := r.stored[rec]
	r.mu.Unlock()
	if digest != "" {
		if path, err := r.plan.Store.ObjectPath(digest); err == nil {
			if _, err := os.Stat(path); err == nil {
				return digest, nil
			}
		}
	}
	digest, err := r.plan.Store.PutRecord(rec)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	r.stored[rec] = digest
	r.mu.Unlock()
	return digest, nil
}

// reuse ends a stage with what its record says.
func (r *runner) reuse(s *plan.Stage, sr *StageResult) {
	rec := s.Record
	sr.Reused, sr.Status, sr.Message = true, stage.Status(rec.Status), s.Reason
	out, err := plan.ReadOutcome(rec)
	if err != nil {
		sr.Status, sr.Message = stage.StatusFailed, fmt.Sprintf("the record of %s cannot be read: %v; run again with --replace %s", s.Address(), err, s.Address())
		return
	}
	sr.Outcome = out
	r.publish(s, out, plan.OutputIdentity(rec), rec.Outputs.Table)
}
