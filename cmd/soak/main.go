// Command soak kills aicplan, fills its disks and damages its journals. It checks that no acknowledged
// row is lost or measured again and that the exports are those of an undisturbed run. Every trial runs
// the real binary in a separate folder. docs/results/reliability.md describes the checks.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

var (
	binary = flag.String("aicplan", "bin/aicplan", "program under test")
	budget = flag.Duration("budget", 3*time.Minute, "repeat the faults for this long; each is tried at least once")
	seed   = flag.Uint64("seed", 1, "seed of all random choices")
	jobs   = flag.Int("jobs", 2, "trials that run at the same time")
	only   = flag.String("only", ".", "try the faults whose name matches this regular expression")
)

func main() {
	flag.Parse()

	ok, err := soak()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}

	if !ok {
		os.Exit(1)
	}
}

// soak runs all faults in turn until the budget is spent. It reports whether every trial passed. The folders
// of failed trials are kept.
func soak() (ok bool, err error) {
	names, err := regexp.Compile(*only)
	if err != nil {
		return false, fmt.Errorf("-only: %w", err)
	}

	if *binary, err = filepath.Abs(*binary); err != nil {
		return false, err
	}

	home, err := os.MkdirTemp("", "aicplan-soak-")
	if err != nil {
		return false, err
	}

	defer func() {
		if ok {
			os.RemoveAll(home)
		}
	}()

	var chosen []*fault
	for _, f := range faults() {
		if !names.MatchString(f.name) {
			continue
		}
		if err := f.scene.rehearse(filepath.Join(home, "rehearsal-"+f.scene.name)); err != nil {
			return false, err
		}
		chosen = append(chosen, f)
	}

	begin := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), begin.Add(*budget))
	defer cancel()
	repeat(ctx, home, chosen)

	ok = len(chosen) > 0
	for _, f := range chosen {
		fmt.Printf("%-48s %3d of %3d passed  %s\n", f.name, f.passed, f.tried, f.skipped)
		ok = ok && f.passed == f.tried
	}

	fmt.Printf("%d faults in %s, seed %d\n", len(chosen), time.Since(begin).Round(time.Second), *seed)
	return ok, nil
}

// repeat runs the faults round by round until ctx ends, but at least once.
func repeat(ctx context.Context, home string, chosen []*fault) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, *jobs))

	for round := 0; round == 0 || ctx.Err() == nil; round++ {
		for i, f := range chosen {
			if round > 0 && ctx.Err() != nil {
				break
			}

			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				t := newTrial(filepath.Join(home, fmt.Sprint(i, ".", round)), f.scene, random(f.name, round))
				if t.skipped == "" {
					f.do(t)
					t.checkNoProcessLeft()
				}

				mu.Lock()
				defer mu.Unlock()
				if t.skipped != "" {
					f.skipped = "skipped: " + t.skipped
					return
				}

				f.tried++
				if len(t.errors) > 0 {
					fmt.Printf("FAIL %s, round %d, seed %d: %s\n  folder: %s\n", f.name, round, *seed, t.errors, t.dir)
					return
				}

				f.passed++
				os.RemoveAll(t.dir)
			})
		}
	}

	wg.Wait()
}

// random returns the random source of one trial. It depends on the seed, the fault and the round only.
func random(name string, round int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", name, round)
	return rand.New(rand.NewPCG(*seed, h.Sum64()))
}
