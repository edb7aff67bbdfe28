package contract

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	soakFor  = flag.Duration("soak", 0, "repeat the faults of TestSoak for this long; each is tried at least once")
	soakSeed = flag.Uint64("seed", 1, "seed of all random choices of TestSoak")
)

// TestSoak kills aicplan, fills its disks and damages its journals. It checks that no acknowledged row is
// lost or measured again and that the exports are those of an undisturbed run. Every trial runs in a separate
// folder, which is kept if the trial fails. docs/results/reliability.md describes the checks.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("-soak DURATION tries the faults")
	}

	for _, s := range []*scene{plain, breaker, python} {
		s.rehearse(t)
	}

	begin := time.Now()
	for round := 0; round == 0 || time.Since(begin) < *soakFor; round++ {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			for _, f := range faults() {
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					trial := newTrial(t, f.scene, soakRandom(f.name, round))
					f.do(trial)
					trial.checkNoProcessLeft()
				})
			}
		})
	}
}

// soakRandom returns the random source of one trial. It depends on the seed, the fault and the round only.
func soakRandom(name string, round int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", name, round)
	return rand.New(rand.NewPCG(*soakSeed, h.Sum64()))
}
