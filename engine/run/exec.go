package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/checkpoint"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/table"
)

// runStage runs a stage and stores its outcome.
func (r *runner) runStage(ctx context.Context, s *plan.Stage, sr *StageResult) {
	r.ev.stageStart(s)
	started := time.Now()
	inputs, err := r.inputs(s)
	if err == nil {
		sr.Outcome, err = r.call(ctx, s, inputs)
	}

	if err != nil {
		sr.Status, sr.Message, sr.Busy = stage.StatusFailed, err.Error(), errors.Is(err, fileutil.ErrBusy)
		if errors.Is(err, context.Canceled) {
			sr.Status, sr.Message = stage.StatusInterrupted, "stopped at once; what was acknowledged is kept"
			if r.detached() {
				sr.Message = "its jobs continue; the same command follows them"
			}
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

// call runs the code of a stage. A panic fails only this stage; the stack is written to the log.
func (r *runner) call(
	ctx context.Context,
	s *plan.Stage,
	inputs map[string]*stage.Dataset,
) (out *stage.Outcome, err error) {
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
		if !s.Class().OwnsDevices() {
			if err := replace(); err != nil {
				return nil, err
			}
		}
	}

	return s.Config.Run(ctx, &stage.RunContext{
		Address: s.Address(), Key: s.Key, Range: s.Instance.Range, Inputs: inputs, Plan: s.Plan, Store: r.plan.Store,
		Events: r.ev, RunDir: r.opts.Run.Dir, OutDir: r.opts.OutDir,
		PlanDir: r.plan.Config.Dir, Options: options, Replace: replace,
		Upstream: func() []stage.Finished { return r.finished(s.Address()) },
		Claim:    r.claim(s.Address()), Standing: r.standing, Unlocked: r.unlocked(s.Address()),
		Stop: r.opts.Stop,
	})
}

// replace durably invalidates the record of a stage.
func (r *runner) replace(s *plan.Stage, epoch string) error {
	rec := &checkpoint.StageRecord{Address: s.Address(), Kind: s.Instance.Kind.Name, Status: "replacing",
		RunID: r.opts.Run.ID, Plan: r.plan.Name()}

	if s.Record != nil {
		copied := *s.Record
		rec = &copied
	}

	rec.Replacing = epoch
	if err := r.plan.Store.WriteStage(rec); err != nil {
		return fmt.Errorf("the record of %s cannot be invalidated: %w", s.Address(), err)
	}

	s.Record = rec
	return nil
}

// finished returns the ended stages that one stage depends on, in run order.
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

		f := sr.Finished()
		f.After = r.plan.Graph.Deps(sr.Address)
		if data := r.data[s.Address()]; f.Outcome.Data == nil && data != nil {
			with := *f.Outcome
			with.Data = data
			f.Outcome = &with
		}
		if s.Plan != nil {
			f.Waterfall = s.Plan.Waterfall
		}
		out = append(out, f)
	}
	return out
}

// standing returns the stages whose data the run reuses, including those that are reused later, and the stages that
// have ended well.
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

// inputs returns the datasets that a stage reads, by input.
func (r *runner) inputs(s *plan.Stage) (map[string]*stage.Dataset, error) {
	out := map[string]*stage.Dataset{}
	for _, in := range s.Config.Inputs() {
		if s.Class() == stage.Report {
			// The record of a stage that did not end well may be that of an earlier run.
			if d, failed := r.leftBy(in.Ref.Address); failed {
				out[in.Name] = d
				continue
			}
		}

		d, err := r.dataset(in.Ref.Address)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", in.Name, s.Address(), err)
		}
		out[in.Name] = d
	}
	return out, nil
}

// leftBy reports whether a stage did not end well, with the data that it has nevertheless or nil. A failed gate has
// the table that it judged.
func (r *runner) leftBy(address string) (d *stage.Dataset, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	up := r.results[address]
	if up == nil || !bad(up.Status) {
		return nil, false
	}
	if up.Outcome != nil {
		d = up.Outcome.Data
	}
	return d, true
}

// dataset returns the data of a stage: from memory, from its plan, or from its record.
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
	if d, err = LoadDataset(r.plan.Store, rec); err != nil {
		return nil, err
	}

	r.mu.Lock()
	r.data[address] = d
	r.mu.Unlock()
	return d, nil
}

// LoadDataset returns the data of a stage record.
func LoadDataset(store *checkpoint.Store, rec *checkpoint.StageRecord) (*stage.Dataset, error) {
	return LoadShared(map[string]arrow.Record{})(store, rec)
}

// LoadShared returns a function like LoadDataset for many records of one store. Tables that several of them name,
// such as that of a gate and of its input, are read once. read caches the tables by digest.
func LoadShared(read map[string]arrow.Record) func(*checkpoint.Store, *checkpoint.StageRecord) (*stage.Dataset, error) {
	return func(store *checkpoint.Store, rec *checkpoint.StageRecord) (*stage.Dataset, error) {
		d := &stage.Dataset{}
		var err error
		if d.Info, err = plan.ReadInfo(rec); err != nil {
			return nil, fmt.Errorf("record of %s: %w", rec.Address, err)
		}

		for _, p := range partsOf(d, &rec.Outputs) {
			if *p.digest == "" {
				continue
			}

			t, ok := read[*p.digest]
			if !ok {
				if t, err = store.GetRecord(*p.digest); err != nil {
					return nil, fmt.Errorf("%s of %s: %w", p.name, rec.Address, err)
				}
				read[*p.digest] = t
			}
			*p.table = t
		}

		return d, nil
	}
}

// part is a table of a dataset with its digest in a stage record.
type part struct {
	name   string
	table  *arrow.Record
	digest *string
}

func partsOf(d *stage.Dataset, out *checkpoint.Outputs) []part {
	return []part{{"table", &d.Table, &out.Table}, {"ledger", &d.Ledger, &out.Ledger},
		{"planned cases", &d.Planned, &out.Planned}}
}

// store stores an outcome durably. It returns the identity of the outcome and the digest of its table.
func (r *runner) store(ctx context.Context, s *plan.Stage, out *stage.Outcome,
	seconds float64) (identity, digest string, err error) {
	fromPlan := s.Plan != nil && s.Plan.Data != nil
	if d := out.Data; fromPlan && d != nil && d.Table == nil {
		// The next plan computes the cases of a grid again.
		out.Counts.Rows = table.Len(d.Planned)
		return s.Output, s.Output, nil
	}

	// The environment of the measurement may differ from the one that the plan assumed.
	if err := r.plan.Rekey(ctx, s); err != nil {
		return "", "", err
	}

	rec := &checkpoint.StageRecord{
		Address: s.Address(), Kind: s.Instance.Kind.Name, Key: s.Key, Inputs: s.Inputs, Status: string(out.Status),
		Journal: out.Journal, Message: out.Message, Reason: s.Reason, RunID: r.opts.Run.ID, Seconds: seconds,
		Plan: r.plan.Name(),
	}
	if out.Status == stage.StatusInterrupted && s.Record != nil {
		rec.Replacing = s.Record.Replacing // the next run continues
	}

	if err := r.fill(rec, out); err != nil {
		return "", "", err
	}

	digest = rec.Outputs.Table
	identity = plan.OutputIdentity(rec)
	if fromPlan {
		identity = s.Output // the plan identifies an import, as in the next plan
	}

	if out.NoReuse && len(out.Artifacts) > 0 {
		rec.Key = "" // no plan reuses the record; it names the stage that wrote the files
	} else if out.NoReuse || s.Class() == stage.Guard || s.Key == "" {
		return identity, digest, nil
	}

	if o := r.plan.Options.Stage; o.Limit > 0 || o.Smoke {
		// A sample does not replace a record of all cases. Its rows are in the journal.
		if s.Record != nil && !s.Record.Sample {
			return identity, digest, nil
		}
		rec.Sample = true
	}

	return identity, digest, r.plan.Store.WriteStage(rec)
}

// fill stores the tables of an outcome and adds the outcome to a record.
func (r *runner) fill(rec *checkpoint.StageRecord, out *stage.Outcome) (err error) {
	encode := func(to *json.RawMessage, v any) {
		if err == nil {
			*to, err = json.Marshal(v)
		}
	}

	if d := out.Data; d != nil {
		for _, p := range partsOf(d, &rec.Outputs) {
			if *p.table == nil {
				continue
			}
			if *p.digest, err = r.put(*p.table); err != nil {
				return err
			}
		}

		if rec.Outputs.Attached, err = stage.AttachmentDigests(d.Table); err != nil {
			return err
		}
		if out.Counts.Rows == 0 {
			out.Counts.Rows = table.Len(d.Table)
		}
		encode(&rec.Info, d.Info)
	}

	encode(&rec.Counts, out.Counts)
	encode(&rec.Checks, out.Checks)
	encode(&rec.Artifacts, out.Artifacts)
	if len(out.Artifacts) > 0 {
		rec.OutDir = r.opts.OutDir
	}
	if err == nil {
		rec.Values, err = plan.MarshalValues(out.Values)
	}
	return err
}

// put stores a table and returns its digest. A table that several stages pass on is encoded once.
func (r *runner) put(rec arrow.Record) (string, error) {
	r.mu.Lock()
	digest := r.stored[rec]
	r.mu.Unlock()
	if digest != "" && r.plan.Store.HasObject(digest) {
		return digest, nil
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

// reuse ends a stage with the outcome in its record.
func (r *runner) reuse(s *plan.Stage, sr *StageResult) {
	rec := s.Record
	sr.Reused, sr.Status, sr.Message = true, stage.Status(rec.Status), s.Reason
	out, err := plan.ReadOutcome(rec)
	if err != nil {
		sr.Status, sr.Message = stage.StatusFailed, err.Error() // the store accepts only records that can be read
		return
	}
	claim := r.claim(s.Address())
	for _, a := range out.Artifacts {
		claim(a.Path)
	}

	sr.Outcome = out
	r.publish(s, out, plan.OutputIdentity(rec), rec.Outputs.Table)
}
