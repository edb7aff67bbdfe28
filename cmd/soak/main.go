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
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"
)

// options are the command line flags.
type options struct {
	binary string
	budget time.Duration
	seed   uint64
	jobs   int
	only   *regexp.Regexp
	keep   bool
}

func main() {
	var o options
	var only string
	flag.StringVar(&o.binary, "aicplan", "bin/aicplan", "program under test")
	flag.DurationVar(&o.budget, "budget", 3*time.Minute, "repeat the faults for this long; each is tried at least once")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of all random choices")
	flag.IntVar(&o.jobs, "jobs", 2, "trials that run at the same time")
	flag.StringVar(&only, "only", ".", "try the faults whose name matches this regular expression")
	flag.BoolVar(&o.keep, "keep", false, "keep the folders of failed trials and print their paths")
	list := flag.Bool("list", false, "list the faults")
	flag.Parse()

	if *list {
		for _, f := range faults() {
			fmt.Println(f.name)
		}
		return
	}

	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		fmt.Fprintln(os.Stderr, "soak: -only:", err)
		os.Exit(2)
	}

	ok, err := soak(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}

	if !ok {
		os.Exit(1)
	}
}

// soak runs all faults in turn until the budget is spent. It reports whether
// every trial passed.
func soak(o options) (ok bool, err error) {
	if o.binary, err = exec.LookPath(o.binary); err != nil {
		return false, fmt.Errorf("%w; build it with make build, or name it with -aicplan", err)
	}
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return false, err
	}

	home, err := os.MkdirTemp("", "aicplan-soak-")
	if err != nil {
		return false, err
	}

	if !o.keep {
		defer os.RemoveAll(home)
	}

	var chosen []*fault
	for _, f := range faults() {
		if o.only.MatchString(f.name) {
			chosen = append(chosen, f)
		}
	}

	if len(chosen) == 0 {
		return false, fmt.Errorf("no fault matches -only; --list prints their names")
	}

	for _, f := range chosen {
		if err := f.scene.rehearse(o.binary, home); err != nil {
			return false, err
		}
	}

	begin := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), begin.Add(o.budget))
	defer cancel()
	repeat(ctx, o, home, chosen)
	return report(chosen, o.seed, time.Since(begin)), nil
}

// repeat runs the faults round by round until ctx ends, but at least once.
func repeat(ctx context.Context, o options, home string, chosen []*fault) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(1, o.jobs))

	for round := 0; round == 0 || ctx.Err() == nil; round++ {
		for _, f := range chosen {
			if round > 0 && ctx.Err() != nil {
				break
			}

			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				t := newTrial(o.binary, filepath.Join(home, fmt.Sprintf("%s.%d", slug(f.name), round)), f.scene,
					random(o.seed, f.name, round))

				f.do(t)
				t.checkNoProcessLeft()

				mu.Lock()
				defer mu.Unlock()
				if f.skipped = t.skipped; f.skipped != "" {
					return
				}

				f.tried++
				if len(t.errors) == 0 {
					f.passed++
					os.RemoveAll(t.dir)
					return
				}

				fmt.Printf("FAIL %s, round %d, seed %d: %s\n", f.name, round, o.seed, t.errors)
				if o.keep {
					fmt.Printf("  folder: %s\n", t.dir)
				}
			})
		}
	}

	wg.Wait()
}

// report prints a table of the results and reports whether every trial passed.
func report(chosen []*fault, seed uint64, took time.Duration) bool {
	ok, trials := true, 0
	for _, f := range chosen {
		note := ""
		if f.skipped != "" {
			note = "skipped: " + f.skipped
		}
		fmt.Printf("%-48s %3d of %3d passed  %s\n", f.name, f.passed, f.tried, note)
		trials += f.tried
		ok = ok && f.passed == f.tried
	}

	fmt.Printf("%d trials of %d faults in %s, seed %d\n", trials, len(chosen), took.Round(time.Second), seed)
	return ok
}

// random returns the random source of one trial. It depends on the seed, the
// fault and the round only.
func random(seed uint64, name string, round int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", name, round)
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
