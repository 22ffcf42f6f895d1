#compdef git-swarm
# git-swarm for zsh: eval "$(git swarm completion zsh)", behind compinit. _git calls _git-swarm for `git swarm`.

_git-swarm() {
    local -a found
    found=("${(@f)$(git-swarm __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then
        compadd -- "${found[@]}"
    else
        _files
    fi
}

(( $+functions[compdef] )) && compdef _git-swarm git-swarm
