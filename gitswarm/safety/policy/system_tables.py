"""Programs that are refused by their name, or by their name and first arguments."""

from __future__ import annotations

from collections.abc import Mapping

from gitswarm.safety.policy.credentials import HANDING_OUT
from gitswarm.safety.policy.listed import by_name, phrases

PROGRAMS: Mapping[str, str] = by_name(
    {
        "privileges": """
            sudo su doas pkexec sudoedit visudo gosu su-exec runuser setcap chroot nsenter runas gksudo kdesu sg
            newgrp
        """,
        "disk": """
            fdisk sfdisk cfdisk gdisk sgdisk parted partprobe mount umount losetup mdadm lvcreate lvremove vgremove
            pvremove wipefs shred blkdiscard swapon swapoff cryptsetup badblocks hdparm diskutil debugfs fsck e2fsck
            resize2fs mknod zpool zfs srm wipe
        """,
        "processes": """
            pkill killall killall5 skill snice fuser xkill slay
        """,
        "machine": """
            shutdown reboot halt poweroff init telinit at batch useradd userdel usermod groupadd groupdel passwd
            chpasswd chsh adduser deluser iptables ip6tables nft ufw modprobe insmod rmmod hostnamectl timedatectl
            chown chgrp chattr setfacl update-rc.d systemd-run launchctl sysctl kexec crond update-alternatives
            dpkg-reconfigure screen tmux
        """,
        "remote-host": """
            ssh scp sftp mosh autossh sshfs ssh-copy-id telnet ftp lftp ncftp rlogin rsh rcp ngrok cloudflared
            chisel frpc socat ncat netcat nc nc.openbsd nc.traditional cryptcat tor proxychains proxychains4 sshpass
        """,
        "shadowing": """
            enable
        """,
        "publish": """
            semantic-release release-it np lerna-publish goreleaser-release gh-pages surge vsce ovsx
        """,
        "hidden-code": """
            bind
        """,
    }
)
BEGINNINGS: Mapping[str, tuple[str, ...]] = {
    "key-file": HANDING_OUT,
    "git-push": phrases("""
        jj git push, hg push, sl push, bzr push, brz push, fossil push, darcs push, svn commit, svn ci, svn import
    """),
    "publish": phrases("""
        npm publish, npm unpublish, npm deprecate, npm dist-tag, npm owner, npm access, npm token, npm login,
        npm adduser, yarn publish, yarn npm publish, yarn npm login, yarn login, pnpm publish, pnpm login,
        bun publish, jsr publish, deno publish, lerna publish, changeset publish, nx release, rush publish,
        auto shipit, vsce publish, ovsx publish, twine upload, flit publish, poetry publish, uv publish,
        hatch publish, pdm publish, maturin publish, maturin upload, setup.py upload, setup.py register,
        cargo publish, cargo yank, cargo login, cargo owner, cargo release, gem push, gem yank, gem owner,
        rake release, pod trunk, mix hex.publish, hex publish, dart pub publish, flutter pub publish,
        docker push, docker login, docker compose push, docker-compose push, docker buildx imagetools,
        docker image push, podman push, podman login, buildah push, nerdctl push, skopeo copy, skopeo delete,
        crane push, crane copy, oras push, helm push, ko publish, mvn deploy, mvnw deploy, mvn release:perform,
        mvn release:prepare, mvn site:deploy, mvn scm:checkin, sbt publish, sbt publishSigned, gradle publish,
        gradlew publish, gradle publishPlugins, gradlew publishPlugins, gradle bintrayUpload,
        gradle uploadArchives, gradlew uploadArchives, dotnet nuget push, nuget push, conan upload,
        luarocks upload, cabal upload, stack upload, goreleaser release, anaconda upload, mkdocs gh-deploy,
        mike deploy, vercel deploy, netlify deploy, firebase deploy, wrangler deploy, wrangler publish,
        flyctl deploy, fly deploy, heroku container:push, eas submit, eb deploy, gcloud app deploy,
        gcloud run deploy, serverless deploy, sls deploy, sam deploy, cdk deploy, terraform apply,
        terraform destroy, tofu apply, tofu destroy, pulumi up, pulumi destroy, aws s3 cp, aws s3 sync,
        aws s3 rm, gsutil cp, gsutil rsync, kubectl apply, kubectl delete, kubectl create, kubectl replace,
        kubectl patch, kubectl edit, kubectl drain, helm install, helm upgrade, helm uninstall
    """),
    "git-commit": phrases("""
        npm version, yarn version, pnpm version, bumpversion, bump2version, bump-my-version, lerna version,
        cz commit, cz bump, standard-version, hg commit, jj commit
    """),
    "git-config": phrases("""
        pre-commit install, pre-commit uninstall, pre-commit init-templatedir, husky install, lefthook install,
        lefthook uninstall, husky init
    """),
    "machine": phrases("""
        npm config set, brew services, rc-service, rc-update
    """),
    "history": phrases("""
        history -c, history -d, history -w, history -r, history -a, set +o history, shopt -uo history,
        journalctl --vacuum
    """),
    "git-environment": phrases("""
        export -n
    """),
}
