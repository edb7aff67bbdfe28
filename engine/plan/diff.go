package plan

import "sort"

// OpDiff compares the cases of one op between two plans.
type OpDiff struct {
	Op      string `json:"op"`
	Old     int    `json:"old"`
	New     int    `json:"new"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// CaseSets are the case ids of a plan by op.
type CaseSets map[string]map[string]bool

// Sets collects the case ids of p by op, shortened as saved plans have them.
func Sets(p *Plan) CaseSets {
	out := CaseSets{}
	for _, s := range p.Stages {
		if s.Plan == nil || s.Plan.Data == nil || s.Plan.Data.Planned == nil {
			continue
		}
		op := s.Plan.Data.Info.Op
		if out[op] == nil {
			out[op] = map[string]bool{}
		}
		for _, id := range CaseIDs(s.Plan.Data.Planned) {
			out[op][id[:packedID]] = true
		}
	}
	return out
}

// Sets collects the case ids of a saved plan by op.
func (s *Saved) Sets() (CaseSets, error) {
	out := CaseSets{}
	for _, st := range s.Stages {
		if st.Op == "" {
			continue
		}
		ids, err := st.ids()
		if err != nil {
			return nil, err
		}
		if out[st.Op] == nil {
			out[st.Op] = ids
			continue
		}
		for id := range ids {
			out[st.Op][id] = true
		}
	}
	return out, nil
}

// DiffSets compares two plans op by op, ops in name order; ops that are alike
// are part of the result with no changes.
func DiffSets(old, now CaseSets) []OpDiff {
	ops := map[string]bool{}
	for op := range old {
		ops[op] = true
	}
	for op := range now {
		ops[op] = true
	}
	var out []OpDiff
	for op := range ops {
		d := OpDiff{Op: op, Old: len(old[op]), New: len(now[op])}
		for id := range now[op] {
			if !old[op][id] {
				d.Added++
			}
		}
		for id := range old[op] {
			if !now[op][id] {
				d.Removed++
			}
		}
		out = append(out, d)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Op < out[j].Op })
	return out
}
