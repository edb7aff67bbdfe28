package model

import "aicplan/engine/stage"

// Reads are the stages that one waited for directly, and those that the
// verifications among them read: a verification hands its input on.
func Reads(all []stage.Finished, address string) []string {
	by := map[string]stage.Finished{}
	for _, f := range all {
		by[f.Address] = f
	}

	var out []string
	seen := map[string]bool{address: true}
	var visit func(string)
	visit = func(at string) {
		for _, before := range by[at].After {
			if seen[before] {
				continue
			}
			seen[before] = true
			out = append(out, before)
			if by[before].Class == stage.Verify {
				visit(before)
			}
		}
	}

	visit(address)
	return out
}
