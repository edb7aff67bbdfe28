package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Limits of one message. It has at most MaxLine bytes, and what those bytes come
// to in memory can be many times as much: millions of empty rows fit.
const (
	maxRows   = 1 << 17
	maxNames  = 10_000 // of an object
	maxLevels = 64
)

// level is an open object or list of a message.
type level struct {
	object bool
	names  map[string]bool // of an object, so far
	name   string          // the last of them
	value  bool            // whether that one's value comes next
	items  int             // of a list, so far
}

// audit refuses a message that is read in several ways or grows beyond bounds: with
// a name twice in one object, of which readers take the one or the other, or
// with more rows, names or levels than any message has. It reads token by token
// and stops at the first fault.
func audit(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	var open []*level
	for {
		token, err := d.Token()
		if err != nil {
			return nil // the end, or what decoding says better
		}
		delim, isDelim := token.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			in := open[len(open)-1]
			switch {
			case in.object && !in.value:
				if err := in.add(token.(string), len(open) == 1); err != nil {
					return err
				}
				continue
			case in.object:
				in.value = false
			default:
				if in.items++; in.items > maxRows && len(open) == 2 && open[0].name == "rows" {
					return &garbage{fmt.Sprintf("a result of more than %d rows", maxRows)}
				}
			}
		}
		if isDelim {
			if len(open) == maxLevels {
				return &garbage{fmt.Sprintf("a message of more than %d levels", maxLevels)}
			}
			open = append(open, &level{object: delim == '{', names: map[string]bool{}})
		}
	}
}

// add takes the next name of an object. Those of a message itself are read
// whatever their case is.
func (l *level) add(name string, message bool) error {
	l.name, l.value = name, true
	if message {
		name = strings.ToLower(name)
		l.name = name
	}
	if l.names[name] {
		return &garbage{fmt.Sprintf("a message with the name %.60q twice in one object", name)}
	}
	if len(l.names) == maxNames {
		return &garbage{fmt.Sprintf("an object of more than %d names", maxNames)}
	}
	l.names[name] = true
	return nil
}
