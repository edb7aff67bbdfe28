package history

import (
	"aicplan/engine/checkpoint"
)

// Gone marks the records of stages that their plan has no more: the newest whole
// run of the plan did not know them. Their data is kept, since the stage may
// only have another name by now, but it tells of nothing that is.
func Gone(store *checkpoint.Store, records []*checkpoint.StageRecord) (map[string]bool, error) {
	runs, err := store.Runs()
	if err != nil {
		return nil, err
	}

	stages := map[string]map[string]bool{} // by plan
	for i := len(runs) - 1; i >= 0; i-- {
		past, err := Read(runs[i])
		if err != nil || !past.Whole || !past.Ended {
			continue
		}

		known := map[string]bool{}
		for _, s := range past.Stages {
			known[s.Address] = true
		}

		name := checkpoint.PlanName(past.Plan)
		if stages[name] == nil {
			stages[name] = known
		}
	}

	out := map[string]bool{}
	for _, r := range records {
		if known := stages[r.Plan]; known != nil && !known[r.Address] {
			out[r.Address] = true
		}
	}

	return out, nil
}
