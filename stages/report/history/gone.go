package history

import (
	"aicplan/engine/checkpoint"
)

// Gone marks the records of stages that the newest complete run of their plan did not
// contain. Their data is kept, because the stage may have been renamed, but it is not
// part of reports.
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
