package plan

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/tree"
)

// Decide decides what a run would do with a stage, from its config, the outputs of the stages that it depends on, and
// the state folder.
func (p *Plan) Decide(ctx context.Context, s *Stage) hcl.Diagnostics {
	if s.Class() == stage.Guard {
		s.Action = stage.ActionRun
		return nil
	}

	s.Key, s.Inputs, s.Output, s.Plan, s.Warnings = "", nil, "", nil, nil
	s.Record = p.record(s.Address())
	if s.Deferred {
		// The outputs that it uses may be known by now.
		st, deferred, diags := p.Config.Decode(s.Instance)
		if diags.HasErrors() {
			return diags
		}
		if deferred {
			s.Action, s.Reason = stage.ActionUnknown, "its attributes use what "+p.waitsFor(s)+" puts out"
			return nil
		}

		s.Config, s.Deferred = st, false
		if diags := p.checkInput(s); diags.HasErrors() {
			return diags
		}
	}

	diags := p.ask(ctx, s, p.context(s))
	if diags.HasErrors() {
		return diags
	}
	if s.Plan != nil && s.Plan.Action == stage.ActionNeeds {
		s.Action, s.Reason = s.Plan.Action, s.Plan.Reason
		return diags
	}

	missing := p.unknownInput(s)
	if missing == "" && s.Class().Follows() {
		missing = p.runsBefore(s)
	}
	if missing != "" {
		s.Action, s.Reason = stage.ActionUnknown, "known after "+missing
		s.Warnings = p.replaces(s)
		return diags
	}

	p.judge(s)
	if s.Action != stage.ActionReuse {
		s.Warnings = p.replaces(s)
	}
	if s.Plan != nil {
		s.Warnings = append(s.Warnings, s.Plan.Warnings...)
	}
	return diags
}

// ask computes the key of a stage and calls its planner.
func (p *Plan) ask(ctx context.Context, s *Stage, pc *stage.PlanContext) hcl.Diagnostics {
	diags := s.Instance.Locate(p.keyWithExtra(ctx, s, pc))
	if diags.HasErrors() {
		return diags
	}

	planner, ok := s.Config.(stage.Planner)
	if !ok || p.answers(s) {
		return diags
	}
	sp, more := planner.Plan(ctx, pc)
	diags = append(diags, s.Instance.Locate(more)...)
	if more.HasErrors() {
		return diags
	}

	if s.Plan = sp; sp == nil {
		return diags
	}
	sp.Demands = p.demanded[s.Address()]
	if sp.KeyExtra != nil {
		p.key(s, sp.KeyExtra)
	}
	if sp.Data != nil {
		s.Output = s.Key // the data is known at plan time, so the key identifies it
	}

	return diags
}

// answers reports whether the stored record is current. The stage is then not planned case by case.
func (p *Plan) answers(s *Stage) bool {
	return s.Key != "" && s.Record != nil && s.Record.Key == s.Key && s.Record.Status == string(stage.StatusOK) &&
		s.Class() != stage.Source && !p.again(s) && p.objectsThere(s.Record) == ""
}

// Rekey computes the key of a stage again after the stage has run. Only then is everything known that it depends on
// outside the plan, such as the environment of its workers.
func (p *Plan) Rekey(ctx context.Context, s *Stage) error {
	if _, ok := s.Config.(stage.Keyer); !ok && !s.Class().Follows() {
		return nil
	}
	if diags := p.keyWithExtra(ctx, s, p.context(s)); diags.HasErrors() {
		return diags
	}
	return nil
}

// keyWithExtra sets Key and Inputs with what the stage adds to its key, and for a follower, with the results of
// its dependencies.
func (p *Plan) keyWithExtra(ctx context.Context, s *Stage, pc *stage.PlanContext) hcl.Diagnostics {
	var extra any
	var diags hcl.Diagnostics
	if k, ok := s.Config.(stage.Keyer); ok {
		if extra, diags = k.KeyExtra(ctx, pc); diags.HasErrors() {
			return diags
		}
	}

	if s.Class().Follows() {
		extra = p.followed(s, extra)
	}
	p.key(s, extra)
	return diags
}

// context returns the arguments of a stage's planner.
func (p *Plan) context(s *Stage) *stage.PlanContext {
	return &stage.PlanContext{
		Address: s.Address(), Range: s.Instance.Range, Store: p.Store, PlanDir: p.Config.Dir,
		Options: p.StageOptions(s), Upstream: p.upstream, Identity: p.identity,
	}
}

// identity identifies the data of a stage and the files that it wrote. It returns "" if they are not known yet.
func (p *Plan) identity(r *stage.Ref) string {
	up := p.byAddr[r.Address]
	if up == nil || up.Output == "" {
		return ""
	}
	digests := []string{}
	if rec := p.record(r.Address); rec != nil {
		arts, err := ReadArtifacts(rec)
		if err != nil {
			return ""
		}
		for _, a := range arts {
			digests = append(digests, a.Digest)
			if a.Beside != "" {
				digests = append(digests, a.Beside)
			}
		}
	}

	id, _ := checkpoint.MustKey(map[string]any{"output": up.Output, "files": digests})
	return id
}

// upstream returns the plan of a stage that another stage reads. A stage that is reused was not planned; it is planned
// now, because a verification repeats some of its cases.
func (p *Plan) upstream(r *stage.Ref) *stage.Plan {
	up := p.byAddr[r.Address]
	if up == nil {
		return nil
	}
	planner, ok := up.Config.(stage.Planner)
	if up.Plan != nil || up.Action != stage.ActionReuse || !ok {
		return up.Plan
	}
	sp, diags := planner.Plan(context.Background(), p.context(up))
	if diags.HasErrors() {
		return nil
	}
	return sp
}

// StageOptions returns the options of the run for one stage.
func (p *Plan) StageOptions(s *Stage) stage.Options {
	o := p.Options.Stage
	o.Again = p.again(s)
	if s.Record != nil {
		o.Epoch = s.Record.Replacing
	}
	return o
}

// key sets Key and Inputs if every input is known.
func (p *Plan) key(s *Stage, extra any) {
	inputs := map[string]string{}
	for _, in := range s.Config.Inputs() {
		up := p.byAddr[in.Ref.Address]
		if up == nil || up.Output == "" {
			return
		}
		inputs[in.Name+" "+in.Ref.Address] = up.Output
	}

	s.Key, s.Inputs = StageKey(s.Instance.Kind, s.Config, inputs, extra)
}

// StageKey hashes everything that identifies a stage's data: the values of its block except those that the kind lists
// in Beside, the version and code of the kind, the inputs, and what the stage adds.
func StageKey(k stage.Kind, st stage.Stage, inputs map[string]string, extra any) (string, json.RawMessage) {
	all := map[string]any{
		"kind": k.Name, "version": k.Version, "config": stage.Identity(k, st), "inputs": inputs, "environment": extra,
	}
	if k.Code != nil {
		all["code"] = k.Code()
	}
	return checkpoint.MustKey(all)
}

// judge compares a stage with its record.
func (p *Plan) judge(s *Stage) {
	cases := (*stage.CaseCounts)(nil)
	if s.Plan != nil {
		cases = s.Plan.Cases
	}
	switch rec := s.Record; {
	case s.Plan != nil && s.Plan.Data != nil:
		s.Action, s.Reason = stage.ActionReady, s.Plan.Reason
		return
	case rec == nil && s.Plan != nil && s.Plan.Action != "":
		s.Action, s.Reason = s.Plan.Action, s.Plan.Reason
	case rec == nil:
		s.Action, s.Reason = stage.ActionCollect, "nothing is there yet"
	case p.replaced(s):
		s.Action, s.Reason = stage.ActionStale, "--replace names it"
		if rec.Replacing != "" {
			s.Reason = "--replace names it, and continues an earlier run"
		}
	case rec.Replacing != "":
		s.Action, s.Reason = stage.ActionStale, "an earlier --replace of it has not ended"
	case rec.Key == "": // see NoReuse
		s.Action, s.Reason = stage.ActionStale, "a stage before it had not succeeded when it ran"
	case rec.Key != s.Key:
		s.Action, s.Reason = stage.ActionStale, staleReason(rec.Inputs, s.Inputs)
		if cases != nil && s.Plan.Reason != "" {
			s.Reason = s.Plan.Reason // it counts the cases
		}
	case !s.Class().HasTable() && rec.Status != string(stage.StatusOK):
		s.Action, s.Reason = stage.ActionStale, "it ended as "+rec.Status+" before"
	default:
		p.judgeSameKey(s, cases)
	}

	if s.Action == stage.ActionReuse {
		s.Output = OutputIdentity(s.Record)
	}
}

// judgeSameKey decides about a stage whose key has not changed.
func (p *Plan) judgeSameKey(s *Stage, cases *stage.CaseCounts) {
	rec := s.Record
	finished := rec.Status == string(stage.StatusOK) || rec.Status == string(stage.StatusPartial)
	switch missing := p.objectsThere(rec); {
	case missing != "":
		s.Action, s.Reason = stage.ActionStale, missing
	case !finished:
		s.Action, s.Reason = stage.ActionStale, "it ended as "+rec.Status+" before"
	case cases != nil && cases.Collect > 0:
		s.Action, s.Reason = stage.ActionStale, textutil.Some(cases.Collect, "case")+" left to measure"
	case judged(s) != "":
		s.Action, s.Reason = stage.ActionStale, judged(s)
	default:
		s.Action = stage.ActionReuse
		s.Reason = "checkpoint " + ShortDigest(rec.Key) + " of " + rec.FinishedAt.Format("2006-01-02 15:04")
	}
}

// judged returns the reason why a stage would end differently from its record, or "".
func judged(s *Stage) string {
	j, ok := s.Config.(stage.Judge)
	if !ok {
		return ""
	}
	_, why := j.Judge(s.Record)
	return why
}

// objectsThere returns which part of a record is missing, or "".
func (p *Plan) objectsThere(rec *checkpoint.StageRecord) string {
	for _, d := range rec.Outputs.Digests() {
		if !p.Store.HasObject(d) {
			return "its table " + ShortDigest(d) + " is not in the state folder any more"
		}
	}

	arts, err := ReadArtifacts(rec)
	if err != nil {
		return "its list of files is damaged"
	}

	if len(arts) > 0 && rec.OutDir != "" && p.Options.OutDir != "" && rec.OutDir != p.Options.OutDir {
		return "its files went to " + rec.OutDir
	}
	for _, a := range arts {
		if name, how := tree.Changed(a.Path, a.Digest, a.Entry); how != "" {
			return name + " " + how
		}
	}

	return ""
}

func (p *Plan) record(address string) *checkpoint.StageRecord {
	rec, err := p.Store.ReadStage(address)
	if err != nil {
		return nil // it is missing, or damaged, which the store has reported
	}
	return rec
}

// again reports whether a stage runs again because of --replace, of this run or of an earlier one that did not end.
func (p *Plan) again(s *Stage) bool {
	return p.replaced(s) || s.Record != nil && s.Record.Replacing != ""
}

func (p *Plan) replaced(s *Stage) bool { return MatchAny(p.Options.Replace, s.Address()) }

// OutputIdentity identifies the data of a finished stage.
func OutputIdentity(rec *checkpoint.StageRecord) string {
	id, _ := checkpoint.MustKey(map[string]any{"outputs": rec.Outputs, "info": rec.Info})
	return id
}
