package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Add returns the text of a configuration file with one more value of a list: the lines that are
// there stay as they are. A value that the list has already is not added. A key that is written in
// another way than as a list is an error; Parse checks the rest.
func Add(text, key, value string) (string, error) {
	item := strconv.Quote(value)
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, key+":") })
	if at < 0 {
		if lines[0] == "" {
			lines = lines[1:]
		}
		return strings.Join(append(lines, key+":", "  - "+item), "\n") + "\n", nil
	}
	rest, _, _ := strings.Cut(strings.TrimPrefix(lines[at], key+":"), " #")
	switch rest = strings.TrimSpace(rest); {
	case strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]"):
		list := strings.TrimSpace(rest[1 : len(rest)-1])
		if slices.ContainsFunc(strings.Split(list, ","), func(v string) bool { return isItem(v, value) }) {
			return text, nil
		}
		if list != "" {
			list += ", "
		}
		lines[at] = strings.Replace(lines[at], rest, "["+list+item+"]", 1)
	case rest != "":
		return "", fmt.Errorf("line %d: %s is not a list: write it as one", at+1, key)
	default:
		end, indent := at+1, "  "
		for i := at + 1; i < len(lines); i++ {
			line := strings.TrimLeft(lines[i], " ")
			v, is := strings.CutPrefix(line, "- ")
			if !is && line != "" && !strings.HasPrefix(line, "#") {
				break
			}
			if is {
				v, _, _ = strings.Cut(v, " #")
				if isItem(v, value) {
					return text, nil
				}
				end, indent = i+1, lines[i][:len(lines[i])-len(line)]
			}
		}
		lines = slices.Insert(lines, end, indent+"- "+item)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// isItem reports whether an item of a list, as it is written, is a value.
func isItem(item, value string) bool {
	item = strings.TrimSpace(item)
	return item == value || item == strconv.Quote(value) || item == "'"+value+"'"
}
