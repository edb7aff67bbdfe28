package pyhost

import (
	"fmt"
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"

	"aicplan/cudaops/worker"
)

// Satisfies says whether a version meets every clause of a PEP 440 specifier.
// Pre-releases count as any other version, since frameworks are collected before
// they are released; the local part of the version (+cu130) is ignored. An empty
// specifier takes everything.
func Satisfies(version, specifier string) (bool, error) {
	if strings.TrimSpace(specifier) == "" {
		return true, nil
	}
	// The library takes pre-releases in any case; its option WithPreRelease only
	// turns off the rule that <1.3 does not take 1.3.0rc1.
	spec, err := pep440.NewSpecifiers(specifier)
	if err != nil {
		return false, fmt.Errorf("%q is not a version condition (PEP 440): %w", specifier, err)
	}
	v, err := parseVersion(version)
	if err != nil {
		return false, err
	}
	return spec.Check(v), nil
}

func parseVersion(text string) (pep440.Version, error) {
	public, _, _ := strings.Cut(strings.TrimSpace(text), "+")
	v, err := pep440.Parse(public)
	if err != nil {
		return v, fmt.Errorf("%q is not a version (PEP 440)", text)
	}
	return v, nil
}

// routed is the version that routes and __compat__ see: builds from a source
// tree (0.0.0.dev...) count as newer than any release.
func routed(version string) string {
	if strings.HasPrefix(version, "0.0.0.dev") {
		return "9999.0.0"
	}
	return version
}

// Answer decides what a version means for a worker: worker.Spec.Answer of every
// Python worker.
func Answer(q worker.Question) (worker.Answer, error) {
	switch q.What {
	case "requires":
		met, err := Satisfies(q.Version, q.Specifier)
		return worker.Answer{Met: met}, err
	case "compat":
		met, err := Satisfies(routed(q.Version), q.Specifier)
		return worker.Answer{Met: met}, err
	case "route":
		return route(q)
	}
	return worker.Answer{}, fmt.Errorf("a question about %q, which this aicplan does not know", q.What)
}

// route finds the newest of the minima that the version reaches, and the oldest
// of them.
func route(q worker.Question) (worker.Answer, error) {
	a := worker.Answer{Index: -1}
	have, err := parseVersion(routed(q.Version))
	if err != nil {
		return a, err
	}
	all := make([]pep440.Version, len(q.Minima))
	for i, text := range q.Minima {
		if all[i], err = parseVersion(text); err != nil {
			return a, err
		}
		if all[i].LessThan(all[a.Oldest]) {
			a.Oldest = i
		}
		if all[i].LessThanOrEqual(have) && (a.Index < 0 || all[i].GreaterThan(all[a.Index])) {
			a.Index = i
		}
	}
	return a, nil
}
