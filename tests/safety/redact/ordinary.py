"""Lines of ordinary code in which a name says secret and the value is none."""

from __future__ import annotations

JWT_IO = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ."
    "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
)

UNSIGNED = (
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiI4ODM3MjAxIiwibmFtZSI6IkdyYWNlIEgiLCJhZG1pbiI6dHJ1ZX0.kX9_qLw2ZrT7mVb3Yc5NdQ"
)
"""Its algorithm is `none`: everybody can make one."""

KUBERNETES = """\
secretName: my-app-db-credentials-v2
    secretName: letsencrypt-prod-tls2
apiKeySecretRef: name
  privateKeySecretRef: {name: letsencrypt-Staging-v02}
imagePullSecrets: [{name: Registry-Pull-Secret1}]
  tokenSecretName: argocd-initial-Admin-v1
automountServiceAccountToken: false
tokenReviewerJwtPath: /var/run/secrets/kubernetes.io/serviceaccount/token
password: ${DB_PASSWORD}
password: "{{ .Values.postgresql.auth.password }}"
secretKeyRef: {name: Payments-Api-v2, key: Stripe-Key1}
POSTGRES_PASSWORD: ${POSTGRES_PASSWORD:?must be set}
token: ${{ secrets.GITHUB_TOKEN }}
passwordSecret: kube-system/Grafana-Admin-v2
secret_arn: arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/MyApp2"""

PYTHON = """\
AUTH_TOKEN_HEADER = "X-Auth-Token"
rotation_name = "secret-rotation-schedule-for-production-databases-v2"
channel = "live_updatesForTheDashboardOfEveryTeam"
role = "access-production-eu-west-1-readers"
image_name = "pat-na1-release-candidate-2024-11"
half = count * 1//0x10 + t1.idOfTheFirstTableThatIsJoinedWithTheSecondOneHere.value
y0_of_the_projectile_in_the_first_frame_of_the_whole_film_as_seen_from_the_ground = 0
css_class = "fc-button-primary fc-today-button sdk-version-4f2a squ_are atta_chment"
tokenizer = "PunktSentenceTokenizerV2"
PASSWORD_RESET_TEMPLATE = "emails/PasswordResetV2.html"
PASSWORD_HASHER = "pbkdf2_sha256_v2"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
CSRF_COOKIE_TOKEN = "XSRF-TOKEN-Cookie1"
token = "AbstractTokenProvider2"
secret_name="prod/MyService/DatabaseCredentials"
next_token = "eyJsYXN0SWQiOjEyM30="
    "password": "testpassword123",
password = os.environ["X"]
password = os.environ.get("DB_PASSWORD_V2", "")
token_url = "https://auth.acme.io/oauth2/v2.0/Token?grant=x"
PASSWORD_MIN_LENGTH = 12
secret = "changeme"
secret = "example"
secret = "dummy-secret-Value-1"
PASSWORD_RESET_TIMEOUT = 60 * 60 * 24
SECRET_KEY_FALLBACKS = ["django-insecure-key"]
AUTH_PASSWORD_VALIDATORS = [{"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"}]
TOKEN_ALGORITHM = "RSA-OAEP-256/A256GCM"
PASSWORD_REGEX = r"^(?=.*[A-Z])(?=.*[0-9]).{8,64}$"
token_type = "urn:ietf:params:oauth:token-type:access_token2"
pad_token = "<|endoftext|>"
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased-Whole-v2")
model_token_path = "models/Llama3/Tokenizer-v3.json"
secret_id = "projects/MyProject1/secrets/Db-Password/versions/3"
password_field = "input#login_PasswordField2"
raise ValueError(f"token: Expected_Token2, got {token!r}")
access_key_id_env = "MINIO_ROOT_USER_V2"
assert token == "Token1" and secret != "OtherSecretValue2"
TOKEN_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789\""""

RUBY = """\
config.secret_key_base_source = "Rails.application.credentials.v2"
password_digest: "BCryptPasswordV2"
config.password_length = 6..128
has_secure_token :auth_token, length: 36
t.string :reset_password_token, default: "", null: false
token_class: "Doorkeeper::AccessToken::V2"
config.reset_password_keys = [:email]"""

JAVA = """\
spring.datasource.password=${DB_PASSWORD:postgres}
spring.security.oauth2.client.registration.google.client-secret=${GOOGLE_SECRET}
jwt.token.validator=com.acme.auth.JwtTokenValidatorV2
private static final String TOKEN_PREFIX = "Bearer-Token-V2 ";
server.ssl.key-store-password-file=/etc/ssl/private/Store1.txt
@Value("${app.jwt.secret:DefaultSecretV2}") String jwtSecret;
String passwordEncoderId = "Argon2PasswordEncoder_v5_8";
password.reset.token.validity=PT24H30M
public static final String SECRET_KEY_FACTORY = "PBKDF2WithHmacSHA256";
tokenStore = "RedisTokenStoreImpl2";
TOKEN_ENDPOINT("oauth2/v1/TokenEndpoint"),"""

TERRAFORM = """\
password = random_password.db2.result
secret_id = aws_secretsmanager_secret.Db_Main_v2.id
password = var.db_password
secret_name = "prod/Payments/Stripe-v2"
kms_key_alias_token = "alias/Payments-Key2"
access_key_secret = data.vault_generic_secret.Aws1.data["secret"]
master_password_secret = "rds!Cluster-Main-Writer2\""""

JAVASCRIPT = """\
const TOKEN_KEY = "acme.AuthToken.v2";
  password: "Password123!",
  password: 'TestPassword123!',
  passwordConfirmation: "testpassword123",
  token: "mock-Token-12345",
  token: "fakeToken_123456",
  accessToken: "access-Token-123",
localStorage.setItem("refreshToken", "RefreshToken-1");
const csrfToken = document.querySelector('meta[name="csrf-token"]').content;
expect(body.token).toBe("Some-Expected-Token1");
  secret: process.env.SESSION_SECRET || "keyboard cat",
  token: "550e8400-e29b-41d4-a716-446655440000",
password: "auth.login.PasswordPlaceholder2",
type TokenKind = "Identifier1" | "StringLiteral2";
      passwordInput: '[data-testid="Login-Password1"]',
<input id="password" aria-describedby="Password-Help-Text1" placeholder="Password (min. 8)" />
apiKeyHeader: "Ocp-Apim-Subscription-Key1",
"token-expired": "Your token has expired. Log in again (E401)!",
const secretLabel = "Wallets.Modal_SecretPhrase-01";
nextPageToken: 'eyJwYWdlIjoyLCJzaXplIjo1MH0=',
apiKey: "abc123def456ghi789",
  tokenSymbol: "USDC.e-Bridged2",
--token-color-Brand1: var(--color-Blue500);"""

GO_AND_RUST = """\
const TokenHeader = "X-Vault-Token"
tokenFile := "/var/run/Secrets2/token"
secretRef := types.NamespacedName{Name: "Db-Creds1", Namespace: "Prod2"}
ErrBadToken = errors.New("token: Bad_Token2 in request")
token := lexer.NextTokenV2()
const PasswordResetTopic = "Users.PasswordReset.v1"
let token = TokenStream2::from(input);
const SECRET_SERVICE: &str = "org.freedesktop.Secret2.Service";
pub const API_KEY_ENV: &str = "ACME_API_KEY_V2";
token: Token![Struct2],
let private_key_path = "keys/Ed25519-Test.pem";"""

OTHERS = f"""\
{{"access_token":"2YotnFZFEjr1zCsicMWpAA", "refresh_token":"tGzv3JOkF0XG5Qx2TlKWIA"}}
Authorization: Bearer mF_9.B5f-4.1JqM
Authorization: Basic czZCaGRSa3F0MzpnWDFmQmF0M2JW
token = "{JWT_IO}"
Authorization: Bearer {JWT_IO}
Authorization: Bearer {UNSIGNED}
$password = ConvertTo-SecureString $env:DB_PASSWORD2 -AsPlainText
'password' => env('DB_PASSWORD', ''),
<property name="tokenValidatorClass" value="com.acme.Validator2"/>
<PackageReference Include="Microsoft.IdentityModel.Tokens" PublicKeyToken="Neutral-Culture-V2" />
define('AUTH_KEY_FILE', 'Wp-Config2');
SecretManager = "SecretManagerServiceClient2"
private val passwordHint = "Passwords.Hint-Label2"
CREATE USER app WITH PASSWORD :'db_password2';
token: 2024-01-02T03:04:05Z-Rollover"""

ORDINARY: tuple[str, ...] = tuple(
    line
    for lines in (KUBERNETES, PYTHON, RUBY, JAVA, TERRAFORM, JAVASCRIPT, GO_AND_RUST, OTHERS)
    for line in lines.splitlines()
)

SURVIVING: tuple[str, ...] = (
    *KUBERNETES.splitlines(),
    *PYTHON.splitlines()[:20],
    *(line for line in OTHERS.splitlines() if JWT_IO in line),
    'AUTH_TOKEN_HEADER = "X-Acme-Auth-Token-V2"',
    f"curl -H 'Authorization: Bearer {JWT_IO}'",
)
"""Those that have to stay in texts, too."""
