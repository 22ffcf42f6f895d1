# git-swarm for bash: eval "$(git swarm completion bash)". git's own completion calls _git_swarm for `git swarm`.

_git_swarm() {
    local first=1
    while [ "$first" -lt "$cword" ] && [ "${words[first]}" != swarm ]; do
        first=$((first + 1))
    done
    __gitcomp_nl "$(git-swarm __complete "${words[@]:first+1:cword-first-1}" "$cur" 2>/dev/null)"
}

_git_swarm_alone() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(git-swarm __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -o bashdefault -o default -F _git_swarm_alone git-swarm
